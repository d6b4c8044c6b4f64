# shellcheck shell=bash
# Field case D107 in its full size: 200,000 tracked files beside 100,000 ignored ones. The model is
# asked at once, the diff is right to the last byte, and a signal ends the run in time. The small form
# is in tests/it/turn_diff.rs. Sourced by .ci/full.

part_huge() {
    need_binary
    huge_tree
    huge_turn
    huge_signal
}

# The tree is made once, below the target folder: to remove it takes longer than all the rest. It has
# few different contents: what is measured is the tree, not git's compression.
huge_tree() {
    huge=${CARGO_TARGET_DIR:-$ROOT/target}/tmp/huge
    if [[ -e $huge/made ]]; then
        git -C "$huge/ws" checkout -q . && git -C "$huge/ws" clean -fdq
        rm -rf "${huge:?}/home" "${huge:?}/out"
        mkdir "$huge/home"
        return
    fi
    rm -rf "$huge"
    mkdir -p "$huge/home" "$huge/scripts" "$huge/ws/src" "$huge/ws/node_modules"
    echo node_modules/ >"$huge/ws/.gitignore"
    local folder file
    for folder in $(seq 1000); do
        mkdir "$huge/ws/src/d$folder" "$huge/ws/node_modules/d$folder"
        for file in {1..200}; do
            echo "$file" >"$huge/ws/src/d$folder/f$file"
        done
        for file in {1..100}; do
            echo "$file" >"$huge/ws/node_modules/d$folder/f$file"
        done
    done
    (
        cd "$huge/ws" || exit
        git init -q -b main
        git add -A
        git -c user.name=t -c user.email=t@example.com -c gc.auto=0 commit -q -m start
    )
    printf '%s\n' "echo z >src/d9/f9" "rm src/d10/f10" "echo i >node_modules/d1/new" \
        "echo n >src/new; chmod +x src/d11/f11" >"$huge/scripts/change.sh"
    cat >"$huge/policy.yaml" <<POLICY
version: 1
exec: { allow: ["sh $huge/scripts/change.sh"] }
files: { read: ["**", "$huge/scripts/**"], write: ["**"] }
POLICY
    cat >"$huge/model.yaml" <<MODEL
version: 1
steps:
  - calls: [{ tool: apply_patch, input: "*** Begin Patch\n*** Update File: src/d7/f7\n@@\n-7\n+y\n*** End Patch" }]
  - calls: [{ tool: exec_command, args: { cmd: "sh $huge/scripts/change.sh" } }]
  - text: done
MODEL
    touch "$huge/made"
}

# huge_exec ARGS... - one run in the huge tree, in place of the subshell that calls it.
huge_exec() {
    exec env -i PATH="$PATH" HOME="$huge/home" "$BINARY" exec -C "$huge/ws" --policy "$huge/policy.yaml" \
        --artifacts "$huge/out" --model "scripted/$huge/model.yaml" "$@" t >"$huge/log" 2>&1
}

huge_turn() {
    local began=${EPOCHREALTIME/./}
    (huge_exec) || {
        cat "$huge/log"
        return 1
    }
    local took=$(((${EPOCHREALTIME/./} - began) / 1000))
    local first
    first=$(huge_first_request)
    echo "first request after $first ms, the whole run in $took ms"
    ((first < 1000 && took < 30000)) || return 1
    [[ $(grep -c '^diff --git' "$huge/out/turn.diff") == 5 ]] || {
        grep '^diff --git' "$huge/out/turn.diff"
        return 1
    }
    grep -q '"exact":false' "$huge/out/rollout.jsonl" && return 1
    # Taken back by git, nothing is left that git sees.
    git -C "$huge/ws" apply -R "$huge/out/turn.diff"
    [[ -z $(git -C "$huge/ws" status --porcelain) ]] || {
        git -C "$huge/ws" status --porcelain
        return 1
    }
    rm "$huge/ws/node_modules/d1/new"
}

# Milliseconds from the first record to the first step of the model.
huge_first_request() {
    local start asked
    start=$(sed -n 's/.*"ts":"\([^"]*\)","type":"run_started".*/\1/p;T;q' "$huge/out/rollout.jsonl")
    asked=$(sed -n 's/.*"ts":"\([^"]*\)","type":"usage".*/\1/p;T;q' "$huge/out/rollout.jsonl")
    echo $((($(date -d "$asked" +%s%N) - $(date -d "$start" +%s%N)) / 1000000))
}

# While the tree is copied, and while it is looked at for the first patch.
huge_signal() {
    local isolate
    for isolate in copy none; do
        (huge_exec --isolate "$isolate") &
        local run=$! began status=0
        sleep 0.4
        kill -TERM "$run"
        began=${EPOCHREALTIME/./}
        wait "$run" || status=$?
        local took=$(((${EPOCHREALTIME/./} - began) / 1000))
        echo "--isolate $isolate: ended $took ms after the signal, exit $status"
        ((status == 143 && took < 5000)) || {
            cat "$huge/log"
            return 1
        }
        git -C "$huge/ws" checkout -q . && rm -f "$huge/ws/src/new"
    done
}
