#!/bin/sh
# test.sh - runs every test of calc.sh; ends with 1 if one fails.
cd "$(dirname "$0")" || exit 1
. ./calc.sh

passed=0
failed=0

# check NAME EXPECTED ACTUAL
check() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1: expected $2, got $3"
    fi
}

check "sum of nothing" 0 "$(sum)"
check "sum of three" 6 "$(sum 1 2 3)"
check "largest of three" 9 "$(max_of 4 9 2)"
check "largest of negative numbers" -3 "$(max_of -5 -3 -8)"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
