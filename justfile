# The steps of CI, one recipe each: `.ci/run` holds what they do, so both are the same.

# What can be run
default:
    @just --list

# Everything CI runs, in its order
ci:
    bash .ci/run

# The format of the code
fmt:
    bash .ci/run fmt

# Lints, warnings as errors
clippy:
    bash .ci/run clippy

# The release binary
build:
    bash .ci/run build

# The README's first command: the example, with the scripted model
example:
    bash .ci/run example

# The README's second command: all tests
test:
    bash .ci/run test

# The examples in the documentation
doc:
    bash .ci/run doc

# Linters for everything that is not Rust, the image, the example in a container
full:
    bash .ci/full

# What takes too long for every push: two hundred kills, and a cut at every byte, each gone on with
soak:
    TURNKEY_SOAK=200 cargo test --test it -- killed:: --nocapture
