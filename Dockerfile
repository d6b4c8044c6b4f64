# The runner as an image, for container jobs. Any user id works; nothing in it needs root.
#
#   docker build -t turnkey .                            build from source
#   docker build -t turnkey --target from-binary .       take the executable dist/turnkey
#
# The base images are arguments, so that a site can put its own mirror or hardened base in:
#   --build-arg RUN_IMAGE=registry.example.com/debian:bookworm-slim
ARG BUILD_IMAGE=rust:1.95-bookworm
ARG RUN_IMAGE=debian:bookworm-slim

# What every variant has: bash and git for the commands of the Turn, certificates for the model.
FROM ${RUN_IMAGE} AS base
# The versions are the base image's own; pinning them here would only break with its updates.
# A base that has the programs already is taken as it is, without a network.
# hadolint ignore=DL3008
RUN set -eu; \
    if ! command -v bash || ! command -v git || ! test -s /etc/ssl/certs/ca-certificates.crt; then \
        apt-get update; \
        apt-get install -y --no-install-recommends bash git ca-certificates; \
        rm -rf /var/lib/apt/lists/*; \
    fi; \
    # Whoever the run is: a home, a workspace, and git that takes a workspace of another owner.
    mkdir -p /home/turnkey /workspace; \
    chmod 1777 /home/turnkey /workspace; \
    git config --system --add safe.directory /workspace
ENV HOME=/home/turnkey
WORKDIR /workspace
USER 10001:10001
ENTRYPOINT ["turnkey"]

FROM base AS from-binary
COPY dist/turnkey /usr/local/bin/turnkey

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked

FROM base AS from-source
COPY --from=build /src/target/release/turnkey /usr/local/bin/turnkey
