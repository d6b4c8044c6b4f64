# shellcheck shell=bash
# The sandbox where most runs are: inside a container. The escape suite, the orphans and the commands of
# the test binary run in a default container as root, as a user that no passwd file knows, and hardened.
# Sourced by .ci/full, after container.sh.

# What runs in each of the containers.
SANDBOX_TESTS=(escape:: orphans:: exec:: capture:: live::)

part_sandbox() {
    need_binary
    need_engine
    need_base_image
    local tests
    tests=$(test_binary)
    [[ -x $tests ]] || {
        echo "no test binary: $tests"
        return 1
    }
    sandbox_in_container "$tests" "root" --user 0:0
    sandbox_in_container "$tests" "a user without a name" --user 10001:10001
    sandbox_in_container "$tests" "hardened" --user 10001:10001 --cap-drop ALL \
        --security-opt no-new-privileges --read-only
    sandbox_first_process
    sandbox_soak "$tests"
}

# The binary of tests/it, which cargo has built already where .ci/run comes here.
test_binary() {
    cargo test --test it --no-run --message-format=json 2>/dev/null |
        sed -n 's/.*"name":"it".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# sandbox_in_container TESTS NAME OPTION... - the tests, with the engine's default settings and these.
sandbox_in_container() {
    local tests=$1 name=$2 log="$WORK/sandbox.log" status=0
    shift 2
    # The paths are those of this machine: the tests know their binary and their sources by them.
    docker run --rm --network none --tmpfs /tmp:exec,mode=1777 "$@" \
        --volume "$ROOT:$ROOT:ro" --volume "$(dirname "$tests")/..:$(dirname "$tests")/..:ro" \
        --workdir "$ROOT" --env HOME=/tmp --env TURNKEY_TEST_OWN_DISK=1 "$RUN_IMAGE" \
        timeout 600 "$tests" "${SANDBOX_TESTS[@]}" --test-threads=2 --nocapture >"$log" 2>&1 || status=$?
    grep -E '^SKIPPED' "$log" | sort -u | sed "s/^/$name: /" || true
    if ((status != 0)); then
        echo "in a container as $name:"
        grep -E '^test .*FAILED|panicked|: .*, not [A-Z]|no grade says|^test result' "$log" | head -n 20
        sed -n '/^failures:/,$p' "$log" | head -n 80
        return 1
    fi
    echo "in a container as $name: $(grep -E '^test result' "$log")"
}

# As process 1 of a container the runner reaps processes that it never started.
sandbox_first_process() {
    local place
    place=$(mktemp -d "$WORK/first-XXXXXX")
    mkdir "$place/ws"
    cat >"$place/ws/zombies.sh" <<'LOOK'
sleep 1.2
echo "zombies: $(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l)"
LOOK
    cat >"$place/policy.yaml" <<'POLICY'
version: 1
exec: { allow: ["sh zombies.sh"] }
files: { read: ["**"] }
POLICY
    cat >"$place/model.yaml" <<'MODEL'
version: 1
steps:
  - calls: [{ tool: exec_command, args: { cmd: sh zombies.sh } }]
  - text: done
MODEL
    # Orphans of the shell, which becomes the runner: they end while it works.
    docker run --rm --network none --volume "$place:/place" --volume "$BINARY:/turnkey:ro" \
        --workdir /place "$RUN_IMAGE" \
        bash -c '( (sleep 0.6 & sleep 0.5 &) & ); exec /turnkey exec -C ws --policy policy.yaml --model scripted/model.yaml --artifacts out t' \
        >"$place/log" 2>&1 || {
        cat "$place/log"
        return 1
    }
    expect_in "$place/out/rollout.jsonl" "zombies: 0"
    echo "as process 1: strangers are reaped"
}

# Five gigabytes of output cost the memory of a kilobyte.
sandbox_soak() {
    "$1" --ignored --nocapture capture::soak >"$WORK/soak.log" 2>&1 || {
        tail -n 20 "$WORK/soak.log"
        return 1
    }
    grep '^peak memory' "$WORK/soak.log"
}
