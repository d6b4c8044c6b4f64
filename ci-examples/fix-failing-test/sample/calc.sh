# calc.sh - small integer helpers for POSIX shells. Source it: . ./calc.sh

# sum NUMBER... - prints the sum of all numbers.
sum() {
    total=0
    for number in "$@"; do
        total=$((total + number))
    done
    echo "$total"
}

# max_of NUMBER... - prints the largest of the numbers.
max_of() {
    largest=0
    for number in "$@"; do
        if [ "$number" -gt "$largest" ]; then
            largest=$number
        fi
    done
    echo "$largest"
}
