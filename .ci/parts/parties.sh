# shellcheck shell=bash
# Model servers and client libraries that nobody here wrote, on all three wires. Everything is
# installed below the work folder; TURNKEY_PARTIES names a folder that is kept instead. Every server is
# ended by its own process id. Sourced by .ci/full, which has WORK, BINARY, skip and the rest.

PARTY_PYTHON=(
    anthropic==2.14.0
    llmock==0.2.2
    "litellm[proxy]==1.108.7"
    openai==3.57.0
)
PARTY_NODE=(@copilotkit/aimock@1.43.0)

# Makes the tools once; the first part that needs them pays.
need_parties() {
    PARTIES=${TURNKEY_PARTIES:-$WORK/parties}
    [[ ! -e $WORK/parties-missing ]] || skip "$(cat "$WORK/parties-missing")"
    [[ ! -e $PARTIES/ready ]] || return 0
    mkdir -p "$PARTIES"
    command -v python3 >/dev/null || install_packages python3
    python3 -m venv "$PARTIES/venv" 2>/dev/null || {
        install_packages python3-venv
        python3 -m venv "$PARTIES/venv"
    }
    if ! "$PARTIES/venv/bin/pip" install --quiet --disable-pip-version-check \
        "${PARTY_PYTHON[@]}" >"$WORK/parties-pip.log" 2>&1; then
        tail -n 3 "$WORK/parties-pip.log"
        echo "the Python parties can't be installed from PyPI" >"$WORK/parties-missing"
        skip "$(cat "$WORK/parties-missing")"
    fi
    command -v npm >/dev/null || install_packages npm
    if ! npm install --prefix "$PARTIES/npm" --no-audit --no-fund --ignore-scripts \
        "${PARTY_NODE[@]}" >"$WORK/parties-npm.log" 2>&1; then
        tail -n 3 "$WORK/parties-npm.log"
        echo "the Node parties can't be installed from npm" >"$WORK/parties-missing"
        skip "$(cat "$WORK/parties-missing")"
    fi
    touch "$PARTIES/ready"
}

party() {
    "$PARTIES/venv/bin/python" .ci/parts/parties.py "$@"
}

# start_party NAME PORT COMMAND... - a server in the background; it is waited for.
start_party() {
    local name=$1 port=$2
    shift 2
    "$@" >"$WORK/$name.log" 2>&1 </dev/null &
    echo "$!" >>"$WORK/party-pids"
    party wait "$port" 90 || {
        tail -n 20 "$WORK/$name.log"
        return 1
    }
}

# Ends every server that was started, by its id; the part's own shell or the last clean-up calls it.
stop_parties() {
    local pid
    [[ -e $WORK/party-pids ]] || return 0
    while read -r pid; do
        kill -TERM "$pid" 2>/dev/null || true
    done <"$WORK/party-pids"
    while read -r pid; do
        for _ in $(seq 50); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done <"$WORK/party-pids"
    rm -f "$WORK/party-pids"
}

# The three wires: their names here, and what stands in front of the path on a server that has all.
WIRES=(openai chat anthropic)

# Every event of our own test server is one of the official client libraries' types.
part_official_types() {
    need_parties
    TURNKEY_TEST_SDK_PYTHON="$PARTIES/venv/bin/python" \
        cargo test --quiet --test model_wire official -- --nocapture
}

# The largest streams, which take too long for every run of the tests.
part_large_streams() {
    cargo test --quiet --test it -- --ignored gigabyte --nocapture
}

# A task of five steps against a scripted server of another house.
part_aimock() {
    need_binary
    need_parties
    trap stop_parties EXIT
    local wire port
    for wire in "${WIRES[@]}"; do
        port=$(party port)
        start_aimock "$wire" "$port"
        party steps "$BINARY" "$WORK" "$wire/party" "http://127.0.0.1:$port/v1" \
            "http://127.0.0.1:$port"
    done
}

start_aimock() {
    start_party "aimock-$1" "$2" "$PARTIES/npm/node_modules/.bin/llmock" --port "$2" \
        --fixtures .ci/parts/parties-steps.json --strict --journal-max 0
}

# The gateway that many put in front of their models, in front of that server.
part_litellm() {
    need_binary
    need_parties
    trap stop_parties EXIT
    local wire front back key
    key="sk-$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')"
    for wire in "${WIRES[@]}"; do
        back=$(party port)
        start_aimock "behind-$wire" "$back"
        declare "back_$wire=$back"
    done
    cat >"$WORK/litellm.yaml" <<CONFIG
model_list:
  - model_name: party-openai
    litellm_params: { model: openai/party, api_base: "http://127.0.0.1:${back_openai:?}/v1", api_key: x }
  - model_name: party-chat
    litellm_params: { model: openai/party, api_base: "http://127.0.0.1:${back_chat:?}/v1", api_key: x }
  - model_name: party-anthropic
    litellm_params: { model: anthropic/party, api_base: "http://127.0.0.1:${back_anthropic:?}", api_key: x }
general_settings: { master_key: $key }
litellm_settings: { telemetry: false }
CONFIG
    front=$(party port)
    start_party litellm "$front" env LITELLM_LOCAL_MODEL_COST_MAP=True NO_PROXY=127.0.0.1 \
        "$PARTIES/venv/bin/litellm" --config "$WORK/litellm.yaml" --host 127.0.0.1 --port "$front"
    for wire in "${WIRES[@]}"; do
        PARTY_KEY=$key party steps "$BINARY" "$WORK" "$wire/party-$wire" \
            "http://127.0.0.1:$front/v1" -
    done
}

# Every fault that a chaos server knows, and its verdict on how the client took them. The wires run
# side by side: most of the time is waiting.
part_llmock() {
    need_binary
    need_parties
    trap stop_parties EXIT
    local wire jobs=() failed=0
    for wire in "${WIRES[@]}"; do
        llmock_faults "$wire" >"$WORK/llmock-$wire.out" 2>&1 &
        jobs+=("$!")
    done
    for job in "${jobs[@]}"; do
        wait "$job" || failed=1
    done
    for wire in "${WIRES[@]}"; do
        cat "$WORK/llmock-$wire.out"
    done
    return "$failed"
}

llmock_faults() {
    local wire=$1 port base failed=0
    port=$(party port)
    base=$(llmock_base "$wire" "$port")
    # Paced, or a whole answer is on its way before anybody can hang up on its broken part.
    start_party "llmock-$wire" "$port" "$PARTIES/venv/bin/llmock" serve --port "$port" \
        --stream-chunk-delay-ms 20
    party faults "$BINARY" "$WORK" "$wire/party" "$base" "http://127.0.0.1:$port" || failed=1
    "$PARTIES/venv/bin/llmock" report --strict --url "http://127.0.0.1:$port" || failed=1
    port=$(party port)
    base=$(llmock_base "$wire" "$port")
    start_party "llmock-window-$wire" "$port" "$PARTIES/venv/bin/llmock" serve --port "$port" \
        --context-window 300
    party window "$BINARY" "$WORK" "$wire/party" "$base" || failed=1
    "$PARTIES/venv/bin/llmock" report --strict --url "http://127.0.0.1:$port" || failed=1
    port=$(party port)
    base=$(llmock_base "$wire" "$port")
    start_party "llmock-quota-$wire" "$port" "$PARTIES/venv/bin/llmock" serve --port "$port" \
        --rpm 3 --tool-mode off
    party quota "$BINARY" "$WORK" "$wire/party" "$base" || failed=1
    "$PARTIES/venv/bin/llmock" report --strict --url "http://127.0.0.1:$port" || failed=1
    return "$failed"
}

llmock_base() {
    if [[ $1 == anthropic ]]; then
        echo "http://127.0.0.1:$2/anthropic/v1"
    else
        echo "http://127.0.0.1:$2/v1"
    fi
}
