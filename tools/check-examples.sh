#!/usr/bin/env bash
# check-examples.sh BUILD - run every example, in memory, on a file and at a server, and the two
# programs of the README as they stand there. Each must exit with code 0.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "${1:?usage: check-examples.sh BUILD}") || exit 1
scratch=$(mktemp -d) || exit 1
bided=
trap '[ -z "$bided" ] || kill "$bided"; wait; rm -rf "$scratch"' EXIT

# Examples that take a URL, or no argument.
with_url='email eventloop graceful idempotent middleware order_cancel periodic pipeline
    progress simple transcode workers'

note() { # what, exit code, log; a subshell may be the one that counts
    if [ "$2" = 0 ]; then
        echo passed >>"$scratch/counts"
        return
    fi
    echo failed >>"$scratch/counts"
    echo "failed (exit code $2): $1"
    sed 's/^/    /' "$3"
}

run() { # program argument...
    local log=$scratch/log.$BASHPID
    timeout 90 "$build/$1" "${@:2}" >"$log" 2>&1
    note "$*" $? "$log"
}

wait_for_line() { # pattern file
    for _ in {1..600}; do
        ! grep -qs "$1" "$2" || return 0
        sleep 0.1
    done
    return 1
}

run_all() { # URL, in which @ becomes the name of the example; none: without an argument
    local name
    for name in $with_url; do
        if [ $# -gt 0 ]; then
            run "$name" "${1/@/$name}"
        else
            run "$name"
        fi
    done
}

start_bided() {
    "$build/bided" --config=/dev/null --url memory: --listen "unix:$scratch/bided.sock" \
        >"$scratch/bided.log" 2>&1 &
    bided=$!
    for _ in {1..600}; do
        [ ! -S "$scratch/bided.sock" ] || return 0
        sleep 0.1
    done
    cat "$scratch/bided.log"
    return 1
}

# Stops a worker and returns its exit code. timeout(1) would send the signal twice.
stop() { # process id
    kill -TERM "$1"
    for _ in {1..600}; do
        kill -0 "$1" 2>/dev/null || {
            wait "$1"
            return
        }
        sleep 0.1
    done
    kill -KILL "$1"
    wait "$1"
}

# A worker in one process, its publisher in another; a signal stops the worker.
run_apart() { # URL
    "$build/consume" "$1" >"$scratch/consume.log" 2>&1 &
    local consumer=$!
    run produce "$1"
    stop "$consumer"
    note "consume $1, ended by SIGTERM" $? "$scratch/consume.log"
    grep -q '^stopped$' "$scratch/consume.log"
    note "consume $1 says that it has stopped" $? "$scratch/consume.log"
}

# The n-th program in README.md: indented by four, from its first #include to the end of main().
program_of_readme() { # n
    awk -v wanted="$1" '
        /^    #include/ && !inside { inside = 1; n++ }
        inside && n == wanted { print substr($0, 5) }
        /^    }$/ && inside { inside = !seen_main }
        /^    int main\(/ { seen_main = 1 }
        !inside { seen_main = 0 }' README.md
}

compile_readme() { # n, program
    program_of_readme "$1" >"$scratch/$2.c"
    gcc -std=c11 -Wall -Werror -I include "$scratch/$2.c" -o "$scratch/$2" -L "$build" -lbide \
        -Wl,-rpath,"$build" >"$scratch/$2.log" 2>&1
    note "compiling program $1 of README.md" $? "$scratch/$2.log"
}

run_readme() {
    compile_readme 1 hello
    (cd "$scratch" && timeout 60 ./hello) >"$scratch/hello.log" 2>&1
    note "program 1 of README.md" $? "$scratch/hello.log"
    compile_readme 2 worker
    [ "$(wc -l <"$scratch/worker.c")" -le 30 ]
    note "program 2 of README.md has at most 30 lines" $? "$scratch/worker.c"
    # stdbuf: write each line when it is printed, as on a terminal.
    (cd "$scratch" && exec stdbuf -oL ./worker) >"$scratch/worker.log" 2>&1 &
    local worker=$!
    wait_for_line '^1: to ada@example.org' "$scratch/worker.log"
    note "program 2 of README.md does its work" $? "$scratch/worker.log"
    stop "$worker"
    note "program 2 of README.md ends when it is told to" $? "$scratch/worker.log"
}

parts=()
begin() { # command...: all parts at the same time, they sleep more than they work
    "$@" &
    parts+=($!)
}

start_bided || exit 1
begin run quickstart
begin run durable "$scratch/durable.db"
begin run_readme
begin run_all
begin run_all "sqlite:$scratch/@.db"
begin run_all "beanstalk://$scratch/bided.sock"
begin run_apart "beanstalk://$scratch/bided.sock"
wait "${parts[@]}"

passed=$(grep -c passed "$scratch/counts")
failed=$(grep -c failed "$scratch/counts")
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
