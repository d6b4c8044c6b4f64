#!/bin/sh
# One Turn in a container, on the checkout in the current folder. The files of the run end up in
# ./turnkey-out. The exit status is the Turn's own.
#
#   sh docker-run.sh .turnkey/fix.yaml            with the image "turnkey" (docker build -t turnkey .)
#
# The container runs as the caller, so that what it writes belongs to the caller. The policy holds
# with the engine's default settings: no privilege is added, and none is needed.
set -eu

spec=${1:?usage: docker-run.sh SPEC [ARGUMENTS OF turnkey exec]}
shift
image=${TURNKEY_IMAGE:-turnkey}
mkdir -p turnkey-out

# The key goes by its name: its value stands in no process list and no history.
exec docker run --rm \
    --user "$(id -u):$(id -g)" \
    --cap-drop ALL \
    --security-opt no-new-privileges \
    --volume "$PWD:/workspace" \
    --workdir /workspace \
    --env OPENAI_API_KEY \
    "$image" exec --spec "$spec" --artifacts turnkey-out "$@"
