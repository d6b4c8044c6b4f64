# shellcheck shell=bash
# The action as a job runs it: its three steps, with the files and variables of a runner. Sourced by
# .ci/full.

# action_step NAME - runs one step of action.yml; its outputs go to $job/NAME.
action_step() {
    : >"$job/$1"
    env -i PATH="$PATH" HOME="$job/home" LANG=C.UTF-8 CI=true GITHUB_ACTIONS=true \
        GITHUB_ACTION_PATH="$ROOT" RUNNER_TEMP="$job/temp" GITHUB_OUTPUT="$job/$1" \
        GITHUB_STEP_SUMMARY="$job/step-summary" "${@:2}" sh "$ROOT/ci/action.sh" "$1"
}

# read_output STEP NAME - a value as the runner reads it: blocks with their delimiters.
read_output() {
    awk -v want="$2" '
        end == "" && /<</ { at = index($0, "<<"); name = substr($0, 1, at - 1); end = substr($0, at + 2); value = ""; first = 1; next }
        end != "" && $0 == end { if (name == want) found = value; end = ""; next }
        end != "" { value = first ? $0 : value "\n" $0; first = 0; next }
        NF { print "no block: " $0 > "/dev/stderr"; exit 1 }
        END { printf "%s", found }' "$job/$1"
}

expect_output() {
    local value
    value=$(read_output "$1" "$2")
    [[ $value == "$3" ]] || {
        echo "output $2 of $1 is '$value', not '$3'"
        return 1
    }
}

new_job() {
    job=$(mktemp -d "$WORK/job-XXXXXX")
    mkdir -p "$job/temp" "$job/home"
}

part_action() {
    need_binary
    action_with_the_real_binary
    action_with_stubs
    action_refuses_a_wrong_binary
}

action_with_the_real_binary() {
    new_job
    action_step binary ACTION_BINARY="$BINARY"
    expect_output binary path "$BINARY"
    action_step run TURNKEY_BINARY="$BINARY" \
        ACTION_SPEC="$ROOT/ci-examples/fix-failing-test/task.yaml" >"$job/log" 2>&1 || {
        tail -n 20 "$job/log"
        return 1
    }
    local artifacts
    artifacts=$(read_output run artifacts)
    action_step outputs RUN_ARTIFACTS="$artifacts" RUN_OUTCOME=success
    expect_output outputs state completed
    expect_output outputs exit-code 0
    expect_output outputs changed true
    local name
    for name in result rollout diff summary; do
        [[ -f $(read_output outputs "$name") ]] || {
            echo "output $name names no file"
            return 1
        }
    done
}

# A stub in the binary's place shows what reaches it, and plays runs that end badly.
action_with_stubs() {
    new_job
    local stub="$job/stub"
    cat >"$stub" <<'STUB'
#!/bin/sh
printf '%s\n' "$@" >"$STUB_SEEN.args"
cat >"$STUB_SEEN.stdin"
env >"$STUB_SEEN.env"
artifacts=$3
[ -z "${STUB_RESULT:-}" ] || printf '%s' "$STUB_RESULT" >"$artifacts/result.json"
exit "${STUB_EXIT:-0}"
STUB
    chmod +x "$stub"
    local status=0 artifacts

    # What the inputs hold is data: nothing runs, nothing is split, the key has its one name.
    # shellcheck disable=SC2016 # the dollars are meant as they stand
    local evil='$(touch '"$job"'/CANARY); `touch '"$job"'/CANARY` " --sandbox off'
    action_step run TURNKEY_BINARY="$stub" STUB_SEEN="$job/seen" STUB_EXIT=10 \
        STUB_RESULT='{"schema":1,"state":"unverified","exit_status":10,"reason":"verify.command","message":"says \"state\": \"completed\", ok","changed":false}' \
        ACTION_TASK="-$evil" ACTION_SPEC="a b.yaml" ACTION_KEY=hunter2 ACTION_KEY_VARIABLE=MY_KEY \
        ACTION_ARGS=$'--expect\nchanges' >"$job/log" 2>&1 || status=$?
    [[ $status -eq 10 ]] || { echo "the step's exit status is $status, not the binary's 10"; return 1; }
    [[ ! -e $job/CANARY ]] || { echo "an input was run"; return 1; }
    [[ $(cat "$job/seen.stdin") == "-$evil" ]] || { echo "the task did not arrive as it was"; return 1; }
    artifacts=$(read_output run artifacts)
    diff -u - "$job/seen.args" <<WANTED
exec
--artifacts
$artifacts
--spec
a b.yaml
--expect
changes
-
WANTED
    grep -qx 'MY_KEY=hunter2' "$job/seen.env"
    if grep -E '^ACTION_' "$job/seen.env"; then echo "inputs stayed in the environment"; return 1; fi
    action_step outputs RUN_ARTIFACTS="$artifacts" RUN_OUTCOME=failure
    expect_output outputs state unverified
    expect_output outputs reason verify.command
    expect_output outputs exit-code 10
    expect_output outputs changed false
    expect_output outputs diff ""

    # Never greener than the step, and never a result of another run.
    status=0
    printf '{"state": "completed", "exit_status": 0}' >"$artifacts/result.json"
    action_step outputs RUN_ARTIFACTS="$artifacts" RUN_OUTCOME=failure >"$job/log" || status=$?
    [[ $status -ne 0 ]] || { echo "a contradiction passed"; return 1; }
    expect_output outputs state internal
    touch -d '1 hour ago' "$artifacts/result.json"
    action_step outputs RUN_ARTIFACTS="$artifacts" RUN_OUTCOME=failure
    expect_output outputs state unknown

    # D103: a value that tries to set another output stays one value.
    local tricky=$'x\nEOF\nstate=success\nstate<<EOF\nsuccess\nEOF'
    mkdir -p "$job/$tricky"
    action_step outputs RUN_ARTIFACTS="$job/$tricky" RUN_OUTCOME=failure
    expect_output outputs artifacts "$job/$tricky"
    expect_output outputs state unknown
}

action_refuses_a_wrong_binary() {
    new_job
    local status=0
    action_step binary ACTION_BINARY=$'nothing\n::set-output name=path::/bin/sh' >"$job/log" || status=$?
    [[ $status -eq 2 ]] || { echo "a binary that is none was taken"; return 1; }
    # D104: no text of an input is printed, so none can be read as a command.
    [[ $(wc -l <"$job/log") -eq 1 ]] && grep -q '^::error title=turnkey::the input binary' "$job/log"
    status=0
    action_step run TURNKEY_BINARY=/bin/true ACTION_KEY=x ACTION_KEY_VARIABLE=LD_PRELOAD >"$job/log" || status=$?
    [[ $status -eq 2 ]] || { echo "the key went into LD_PRELOAD"; return 1; }
}
