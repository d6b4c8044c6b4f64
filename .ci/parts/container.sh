# shellcheck shell=bash
# The image and the example in it, as root and as a user id that no passwd file knows, with the
# engine's default settings. Sourced by .ci/full.

ENGINE_DIR=""

# An engine that answers, or one of our own for as long as this script runs.
need_engine() {
    if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
        return 0
    fi
    if ! command -v docker >/dev/null || ! command -v dockerd >/dev/null; then
        install_packages docker.io
    fi
    [[ $(id -u) -eq 0 ]] || skip "an engine of our own needs root"
    ENGINE_DIR="$WORK/engine"
    export DOCKER_HOST="unix://$ENGINE_DIR/sock"
    # overlay2 is quick where it can be had; vfs copies whole trees, and works everywhere.
    local driver
    for driver in overlay2 vfs; do
        start_engine "$driver" && return 0
        stop_engine
    done
    tail -n 5 "$ENGINE_DIR/log"
    skip "no container engine answers, and none of our own starts"
}

# start_engine STORAGE_DRIVER - true when it answers.
start_engine() {
    mkdir -p "$ENGINE_DIR"
    dockerd --storage-driver="$1" --data-root "$ENGINE_DIR/data-$1" --exec-root "$ENGINE_DIR/exec" \
        --pidfile "$ENGINE_DIR/pid" --host "$DOCKER_HOST" \
        --bridge=none --iptables=false --ip6tables=false >"$ENGINE_DIR/log" 2>&1 </dev/null &
    local started=$! tries
    for tries in $(seq 60); do
        docker info >/dev/null 2>&1 && return 0
        kill -0 "$started" 2>/dev/null || return 1
        sleep 1
    done
    echo "an engine on $1 does not answer in $tries s"
    return 1
}

# Ends the engine that need_engine started, by its process id.
stop_engine() {
    local pidfile="$WORK/engine/pid" pid tries
    [[ -s $pidfile ]] || return 0
    pid=$(cat "$pidfile")
    kill -TERM "$pid" 2>/dev/null || return 0
    for tries in $(seq 30); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 1
    done
    echo "the engine did not end in $tries s and is killed"
    kill -KILL "$pid" 2>/dev/null
}

# The base image under the name that the Dockerfile uses: from the engine, from its registry, or
# made here from Debian's packages.
need_base_image() {
    RUN_IMAGE=$(sed -n 's/^ARG RUN_IMAGE=//p' Dockerfile)
    docker image inspect "$RUN_IMAGE" >/dev/null 2>&1 && return 0
    if [[ -z $ENGINE_DIR ]] && timeout 120 docker pull --quiet "$RUN_IMAGE" >/dev/null 2>&1; then
        return 0
    fi
    command -v debootstrap >/dev/null || install_packages debootstrap
    # The binary was linked on this machine: its base is this machine's release.
    local codename
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    [[ $RUN_IMAGE == "debian:$codename-slim" ]] || RUN_IMAGE="debian:$codename-slim"
    debootstrap --variant=minbase --include=bash,git,ca-certificates "$codename" "$WORK/base" \
        >"$WORK/debootstrap.log" 2>&1 || {
        tail -n 3 "$WORK/debootstrap.log"
        skip "there is no base image, and none can be made"
    }
    tar -C "$WORK/base" --exclude=./var/cache/apt --exclude=./var/lib/apt/lists \
        --exclude=./usr/share/doc --exclude=./usr/share/locale -c . | docker import - "$RUN_IMAGE" >/dev/null
    rm -rf "$WORK/base"
}

part_container() {
    need_binary
    need_engine
    need_base_image
    # The context as a checkout has it, with the binary where the Dockerfile looks for it.
    local context="$WORK/context"
    mkdir -p "$context/dist" "$context/target"
    cp Dockerfile .dockerignore Cargo.toml Cargo.lock "$context"
    cp -r src "$context"
    cp "$BINARY" "$context/dist/turnkey"
    touch "$context/target/left-out"
    # What .dockerignore leaves out can't get into an image.
    if printf 'FROM scratch\nCOPY target/left-out /\n' |
        docker build --quiet --file - "$context" >/dev/null 2>&1; then
        echo "target/ goes to the engine: .dockerignore does not hold"
        return 1
    fi
    docker build --network none --target from-binary --build-arg RUN_IMAGE="$RUN_IMAGE" \
        --tag turnkey-ci "$context" >"$WORK/build.log" 2>&1 || {
        tail -n 20 "$WORK/build.log"
        return 1
    }
    local user
    for user in 0:0 10001:10001; do
        example_in_container "$user"
    done
    # A few seconds with an engine that reaches a registry; elsewhere there is nothing to build with.
    local build_image
    build_image=$(sed -n 's/^ARG BUILD_IMAGE=//p' Dockerfile)
    if [[ -z $ENGINE_DIR ]] && timeout 300 docker pull --quiet "$build_image" >/dev/null 2>&1; then
        docker build --tag turnkey-ci-source . >"$WORK/source.log" 2>&1 || {
            tail -n 20 "$WORK/source.log"
            return 1
        }
        docker run --rm turnkey-ci-source --version
    else
        echo "SKIPPED: the image from source: no registry has $build_image for this engine"
    fi
}

# example_in_container USER - the example, default engine settings, no network.
example_in_container() {
    local user=$1 out="$WORK/out-${1%%:*}" status=0
    mkdir -p "$out"
    chmod 777 "$out"
    docker run --rm --network none --user "$user" \
        --volume "$ROOT/ci-examples/fix-failing-test:/workspace/example:ro" --volume "$out:/out" \
        turnkey-ci exec --spec example/task.yaml --artifacts /out >"$out.log" 2>&1 || status=$?
    if ((status != 0)); then
        echo "the example in a container as $user ends with $status:"
        tail -n 20 "$out.log"
        return 1
    fi
    grep -Eq '"state": *"completed"' "$out/result.json"
    # The diff is the whole truth: on the untouched sample it applies, and the test then passes.
    local sample="$WORK/sample-${user%%:*}"
    cp -r ci-examples/fix-failing-test/sample "$sample"
    (cd "$sample" && GIT_CEILING_DIRECTORIES="$WORK" git apply --check "$out/turn.diff" &&
        GIT_CEILING_DIRECTORIES="$WORK" git apply "$out/turn.diff" && sh test.sh)
    echo "the example in a container as $user: completed"
}
