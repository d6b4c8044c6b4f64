# shellcheck shell=bash
# libFuzzer on every target of fuzz/, beginning with the committed corpora. The stable compiler can put
# its counters in; only the sanitizers need a nightly one. Sourced by .ci/full.

# What cargo-fuzz asks the compiler for.
FUZZ_FLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks"

part_fuzz() {
    command -v c++ >/dev/null || install_packages g++
    local host target seconds=${TURNKEY_FUZZ_SECONDS:-8} folder=$ROOT/target/fuzz
    host=$(rustc -vV | sed -n 's/^host: //p')
    # With a target named, build scripts and macros are left without counters.
    (cd fuzz && CARGO_TARGET_DIR=$folder RUSTFLAGS=$FUZZ_FLAGS cargo build --locked --target "$host" \
        --config profile.dev.opt-level=1 --config profile.dev.debug=0) || return 1
    for target in fuzz/fuzz_targets/*.rs; do
        target=$(basename "$target" .rs)
        mkdir -p "$WORK/fuzz/$target"
        "$folder/$host/debug/$target" -max_total_time="$seconds" -max_len=8192 -timeout=10 \
            -rss_limit_mb=2048 -artifact_prefix="$ROOT/target/fuzz/crash-$target-" \
            "$WORK/fuzz/$target" "fuzz/corpus/$target" >"$WORK/fuzz/$target.log" 2>&1 || {
            tail -n 20 "$WORK/fuzz/$target.log"
            echo "$target fails: put the input named above into fuzz/corpus/$target"
            return 1
        }
        echo "$target: $(tail -n 1 "$WORK/fuzz/$target.log")"
    done
}
