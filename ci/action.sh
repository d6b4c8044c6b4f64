#!/bin/sh
# The steps of action.yml. Every value that comes from outside arrives in the environment and is
# used as data only: nothing is evaluated, and nothing of it is printed.
set -eu

# say KIND TEXT - an annotation. TEXT is always one of ours.
say() {
    printf '::%s title=turnkey::%s\n' "$1" "$2"
}

fail() {
    say error "$1"
    exit 2
}

# output NAME VALUE - one output of this step, whatever VALUE holds. The delimiter is random and
# checked against the value, so that no value can end its own block and set another output.
output() {
    while :; do
        delimiter="end-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
        case "$2" in
        *"$delimiter"*) ;;
        *) break ;;
        esac
    done
    printf '%s<<%s\n%s\n%s\n' "$1" "$delimiter" "$2" "$delimiter" >>"$GITHUB_OUTPUT"
}

# binary - finds the given binary or builds it from this action's own source.
binary() {
    if [ -n "${ACTION_BINARY:-}" ]; then
        [ -f "$ACTION_BINARY" ] && [ -x "$ACTION_BINARY" ] ||
            fail "the input binary does not name an executable file"
        case "$ACTION_BINARY" in
        /*) path=$ACTION_BINARY ;;
        *) path=$PWD/$ACTION_BINARY ;;
        esac
    else
        command -v cargo >/dev/null ||
            fail "there is no cargo to build turnkey with: give the input binary, or install Rust first"
        target="$RUNNER_TEMP/turnkey-target"
        CARGO_TARGET_DIR="$target" \
            cargo build --release --locked --manifest-path "$GITHUB_ACTION_PATH/Cargo.toml"
        path="$target/release/turnkey"
    fi
    output path "$path"
}

# run - becomes turnkey: this step's exit status and signals are its own.
run() {
    artifacts=${ACTION_ARTIFACTS:-}
    [ -n "$artifacts" ] || artifacts=$(mktemp -d "$RUNNER_TEMP/turnkey-XXXXXX")
    output artifacts "$artifacts"
    # A result.json older than this file is not this run's.
    rm -f "$RUNNER_TEMP/turnkey-started"
    : >"$RUNNER_TEMP/turnkey-started"

    set -- exec --artifacts "$artifacts"
    [ -z "${ACTION_SPEC:-}" ] || set -- "$@" --spec "$ACTION_SPEC"
    [ -z "${ACTION_POLICY:-}" ] || set -- "$@" --policy "$ACTION_POLICY"
    [ -z "${ACTION_MODEL:-}" ] || set -- "$@" --model "$ACTION_MODEL"
    [ -z "${ACTION_BASE_URL:-}" ] || set -- "$@" --base-url "$ACTION_BASE_URL"
    [ -z "${ACTION_WORKSPACE:-}" ] || set -- "$@" --workspace "$ACTION_WORKSPACE"
    # More arguments, one a line. The file keeps the loop in this shell.
    lines="$RUNNER_TEMP/turnkey-args"
    printf '%s\n' "${ACTION_ARGS:-}" >"$lines"
    while IFS= read -r line; do
        [ -z "$line" ] || set -- "$@" "$line"
    done <"$lines"

    if [ -n "${ACTION_KEY:-}" ]; then
        name=${ACTION_KEY_VARIABLE:-OPENAI_API_KEY}
        case "$name" in
        '' | [0-9]* | *[!A-Za-z0-9_]*) fail "the input key-variable is no name of a variable" ;;
        PATH | HOME | LD_* | GITHUB_* | RUNNER_*) fail "the input key-variable names a variable that is taken" ;;
        esac
        export "$name=$ACTION_KEY"
    fi
    # The task goes in by a file: an argument may be taken for a flag and is short of room.
    task="$RUNNER_TEMP/turnkey-task"
    printf '%s' "${ACTION_TASK:-}" >"$task"
    [ -z "${ACTION_TASK:-}" ] || set -- "$@" -
    program=$TURNKEY_BINARY
    unset ACTION_TASK ACTION_SPEC ACTION_POLICY ACTION_MODEL ACTION_BASE_URL ACTION_WORKSPACE \
        ACTION_ARGS ACTION_KEY ACTION_KEY_VARIABLE ACTION_ARTIFACTS TURNKEY_BINARY
    exec "$program" "$@" <"$task"
}

# field NAME PATTERN - a top-level value of result.json. The first match is the record's own: its
# head holds only words of ours, and inside a JSON text every quote is escaped.
field() {
    tr '\n' ' ' <"$result" | grep -o "\"$1\": *\"\{0,1\}$2\"\{0,1\} *[,}]" | head -n 1 |
        sed -e 's/^[^:]*: *//' -e 's/[,}]$//' -e 's/ *$//' -e 's/^"//' -e 's/"$//'
}

# outputs - what the run left, for the steps after this one. Never greener than the run itself.
outputs() {
    result="$RUN_ARTIFACTS/result.json"
    state=
    reason=
    exit_code=
    changed=
    started="$RUNNER_TEMP/turnkey-started"
    if [ -f "$result" ] && [ -f "$started" ] && [ -z "$(find "$started" -prune -newer "$result")" ]; then
        state=$(field state '[a-z_]*')
        reason=$(field reason '[a-z0-9_.]*')
        exit_code=$(field exit_status '[0-9]*')
        changed=$(field changed '[a-z]*')
    fi
    if [ -z "$state" ]; then
        state=unknown
        reason=no_result
    fi
    lie=
    if [ "$state" = completed ] && [ "$RUN_OUTCOME" != success ]; then
        lie="result.json says completed, but the step did not succeed"
    elif [ "$state" != completed ] && [ "$RUN_OUTCOME" = success ]; then
        lie="the step succeeded, but result.json does not say completed"
    fi
    if [ -n "$lie" ]; then
        state=internal
        reason=action.contradiction
    fi
    output state "$state"
    output reason "$reason"
    output exit-code "$exit_code"
    output changed "$changed"
    output artifacts "$RUN_ARTIFACTS"
    for pair in result:result.json rollout:rollout.jsonl diff:turn.diff summary:summary.md; do
        file="$RUN_ARTIFACTS/${pair#*:}"
        [ -f "$file" ] || file=
        output "${pair%%:*}" "$file"
    done
    [ -z "$lie" ] || fail "$lie"
}

case "${1:-}" in
binary | run | outputs) "$1" ;;
*) fail "action.sh takes one of: binary, run, outputs" ;;
esac
