# shellcheck shell=bash
# The `container` environment with a real engine: commands run in the image, see what the policy
# grants, and leave no container, whatever ends them. Sourced by .ci/full, after container.sh.

part_environment() {
    need_binary
    need_engine
    need_base_image
    environment_runs_in_the_image
    environment_ends_with_its_command
    environment_ends_with_the_runner
    environment_in_a_named_container
    environment_says_what_is_missing
}

# new_place ENVIRONMENT - a place for a run; its folder is in $place.
new_place() {
    place=$(mktemp -d "$WORK/environment-XXXXXX")
    mkdir -p "$place/ws/src" "$place/home"
    echo a >"$place/ws/src/a.txt"
    cat >"$place/ws/look.sh" <<'LOOK'
echo "uid $(id -u), init $(cat /proc/1/comm)"
echo made >src/made.txt && echo "src: written"
echo x >outside.txt || echo "workspace: refused"
echo x >/etc/x || echo "image: refused"
echo x >"$HOME/x" && echo "home: written"
ls "$1" >/dev/null 2>&1 || echo "run folder: not there"
ls /sys/class/net
grep -E '^(CapEff|NoNewPrivs)' /proc/self/status
ls /proc | grep -c '^[0-9]*$'
echo "token ${BUILD_TOKEN:-none}, key ${MODEL_KEY:-none}"
LOOK
    cat >"$place/policy.yaml" <<POLICY
version: 1
exec: { allow: ["sh look.sh *", "sleep *", "printf ..."] }
files: { read: ["**"], write: ["src/**"] }
env: { pass: [BUILD_TOKEN] }
POLICY
    cat >"$place/spec.yaml" <<SPEC
version: 1
task: t
workspace: ws
policy: policy.yaml
model: { use: scripted/model.yaml }
environment: $1
SPEC
}

# scripted CALL... - the model's calls, one step each.
scripted() {
    {
        printf 'version: 1\nsteps:\n'
        printf '  - calls: [{ tool: exec_command, args: %s }]\n' "$@"
        printf '  - text: done\n'
    } >"$place/model.yaml"
}

# run_here ARGS... - one run; its output goes to $place/log.
run_here() {
    (cd "$place" && env -i PATH="$PATH" HOME="$place/home" ${DOCKER_HOST:+DOCKER_HOST="$DOCKER_HOST"} \
        BUILD_TOKEN=tok MODEL_KEY=never "$BINARY" exec --spec spec.yaml --artifacts "$place/out" "$@" \
        >"$place/log" 2>&1)
}

# expect_in FILE TEXT...
expect_in() {
    local file=$1 text
    shift
    for text in "$@"; do
        grep -qF -- "$text" "$file" || {
            echo "'$text' is not in $file:"
            cat "$file" "$place/log"
            return 1
        }
    done
}

no_container_left() {
    local tries
    for tries in $(seq 20); do
        [[ -n $(docker ps --all --quiet --filter label=turnkey.run) ]] || return 0
        sleep 0.5
    done
    echo "after $tries looks there still are containers:"
    docker ps --all --filter label=turnkey.run
    return 1
}

environment_runs_in_the_image() {
    new_place "{ container: { image: \"$RUN_IMAGE\" } }"
    scripted "{ cmd: \"sh look.sh $place/home/.local/state/turnkey/runs\" }" \
        '{ cmd: "printf hi", tty: true, yield_time_ms: 20000 }'
    run_here || {
        cat "$place/log"
        return 1
    }
    expect_in "$place/out/rollout.jsonl" "uid $(id -u)," "src: written" "workspace: refused" \
        "image: refused" "home: written" "run folder: not there" "CapEff:\\t0000000000000000" \
        "NoNewPrivs:\\t1" "token tok, key none" "lo\\nCapEff"
    expect_in "$place/out/turn.diff" "src/made.txt"
    [[ $(stat -c %u "$place/ws/src/made.txt") == "$(id -u)" ]]
    if grep -q not_held "$place/out/result.json"; then
        echo "not everything is held:"
        cat "$place/out/result.json"
        return 1
    fi
    no_container_left
    echo "commands in the image: as the policy says"
}

environment_ends_with_its_command() {
    new_place "{ container: { image: \"$RUN_IMAGE\" } }"
    scripted '{ cmd: "sleep 301", timeout_ms: 1500 }' '{ cmd: "sleep 302", yield_time_ms: 300 }'
    run_here || {
        cat "$place/log"
        return 1
    }
    expect_in "$place/out/rollout.jsonl" "timed out" '"ended_by":"turn_end"'
    no_container_left
    echo "timeout and the Turn's end: no container left"
}

environment_ends_with_the_runner() {
    new_place "{ container: { image: \"$RUN_IMAGE\" } }"
    scripted '{ cmd: "sleep 303" }'
    run_here &
    local started=$! tries runner
    for tries in $(seq 60); do
        [[ -n $(docker ps --quiet --filter label=turnkey.run) ]] && pgrep -f 'sleep 303' >/dev/null && break
        sleep 0.25
    done
    runner=$(pgrep -f "^$BINARY exec --spec spec.yaml --artifacts $place/out" | head -n 1)
    [[ -n $runner ]] || { echo "no runner after $tries looks"; return 1; }
    kill -KILL "$runner"
    wait "$started" || true
    no_container_left
    echo "a killed runner: no container left"
}

environment_in_a_named_container() {
    new_place "{ container: { name: turnkey-ci-named } }"
    scripted "{ cmd: \"sh look.sh $place/home/.local/state/turnkey/runs\" }" '{ cmd: "sleep 304", timeout_ms: 1000 }'
    docker run --detach --rm --name turnkey-ci-named --network none --cap-drop ALL \
        --security-opt no-new-privileges --volume "$place/ws:$place/ws" "$RUN_IMAGE" \
        sleep 600 >/dev/null
    local status=0
    run_here || status=$?
    [[ $status -eq 20 ]] || { echo "mounts that nobody vouches for: $status, not 20"; status=1; }
    run_here --sandbox best-effort || { cat "$place/log"; status=1; }
    expect_in "$place/out/rollout.jsonl" "src: written" "timed out" || status=1
    if docker top turnkey-ci-named | grep -q 'sleep 304'; then
        echo "a command goes on in the named container"
        status=1
    fi
    docker rm --force turnkey-ci-named >/dev/null
    [[ $status -ne 1 ]] || return 1
    echo "a named container: executed in, and swept"
}

environment_says_what_is_missing() {
    new_place '{ container: { image: "localhost:1/no/such:image" } }'
    scripted '{ cmd: "printf hi" }'
    local status=0
    run_here || status=$?
    [[ $status -eq 20 ]] || { echo "an image that is not there: $status, not 20"; return 1; }
    expect_in "$place/log" "cannot get the image"
    echo "an image that cannot be had: unavailable"
}
