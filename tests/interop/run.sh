#!/usr/bin/env bash
# run.sh [--server PROGRAM] [--build FOLDER] [CLIENT...] - tell the story of README.md through real
# client libraries, to a real server, and end with the line "N passed, M failed".
#
# PROGRAM is bided (FOLDER/bided unless told), or beanstalkd, which the story was checked with. It is
# started twice, with its jobs in memory and in a folder, on a free port of the loopback interface,
# and stopped by its process id. The clients of one server run at the same time.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1

build=$here/../../build
server=
clients=()
while [ $# -gt 0 ]; do
    case $1 in
    --server) server=${2:?} && shift ;;
    --build) build=${2:?} && shift ;;
    -*)
        echo "usage: tests/interop/run.sh [--server PROGRAM] [--build FOLDER] [CLIENT...]" >&2
        exit 2
        ;;
    *) clients+=("$1") ;;
    esac
    shift
done
build=$(realpath -m "$build")
[ -n "$server" ] || server=$build/bided
[ ${#clients[@]} != 0 ] || clients=(beaneater pheanstalk jackd node-beanstalk)

# How a client is run, and the checks that it makes at least: a story cut short is no story.
declare -A programs=(
    [beaneater]="ruby $here/beaneater.rb"
    [pheanstalk]="php $here/pheanstalk.php"
    [jackd]="node $here/jackd.js"
    [node-beanstalk]="node $here/node-beanstalk.js"
)
least_checks=70
patience=60

passed=0
failed=0
scratch=$(mktemp -d) || exit 1
pid=
# shellcheck disable=SC2317
finish() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null
    rm -rf "$scratch"
}
trap finish EXIT

fail() { # sentence
    echo "FAIL $1"
    failed=$((failed + 1))
}

# The modules from npm lie in the build directory, until their list changes.
install_modules() {
    local folder=$build/interop
    export NODE_PATH=$folder/node_modules
    cmp -s "$here/package-lock.json" "$folder/installed" && return 0
    rm -rf "$folder" && mkdir -p "$folder" &&
        cp "$here/package.json" "$here/package-lock.json" "$folder" || return 1
    echo "npm installs jackd and node-beanstalk into $folder"
    (cd "$folder" && timeout 120 npm ci --ignore-scripts --no-audit --no-fund) || return 1
    cp "$here/package-lock.json" "$folder/installed"
}

answers() { # port
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Sets pid and port. A port that somebody else takes meanwhile costs one more attempt.
start() { # memory or folder
    local attempt i arguments
    for ((attempt = 0; attempt < 10; attempt++)); do
        port=$((20000 + RANDOM % 12000))
        answers "$port" && continue
        case $(basename "$server"):$1 in
        beanstalkd*:memory) arguments=(-l 127.0.0.1 -p "$port") ;;
        beanstalkd*:folder) arguments=(-l 127.0.0.1 -p "$port" -b "$scratch") ;;
        *:memory) arguments=(--listen "127.0.0.1:$port" --url memory:) ;;
        *:folder) arguments=(--listen "127.0.0.1:$port" --url "sqlite:$scratch/jobs.db") ;;
        esac
        "$server" "${arguments[@]}" >"$scratch/log" 2>&1 &
        pid=$!
        for ((i = 0; i < 200; i++)); do
            kill -0 "$pid" 2>/dev/null || break
            answers "$port" && return 0
            sleep 0.05
        done
        stop
    done
    return 1
}

stop() {
    local status i
    kill "$pid" 2>/dev/null
    for ((i = 0; i < 200; i++)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    status=$?
    pid=
    # beanstalkd dies of the signal, bided ends well.
    [ "$status" = 0 ] || [[ $status = 143 && $(basename "$server") = beanstalkd* ]]
}

judge() { # client place status
    local last
    last=$(tail -n 1 "$scratch/$1")
    if ! [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        fail "$1 ($2) ended with code $3 and said:"
        cat "$scratch/$1"
        return
    fi
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
    if [ "${BASH_REMATCH[2]}" != 0 ]; then
        echo "$1 ($2):"
        sed '$d' "$scratch/$1"
    elif [ "$3" != 0 ] || [ "${BASH_REMATCH[1]}" -lt $least_checks ]; then
        fail "$1 ($2) made ${BASH_REMATCH[1]} checks and ended with code $3"
    fi
}

run_clients() { # place
    local client
    declare -A children=()
    for client in "${clients[@]}"; do
        # shellcheck disable=SC2086
        timeout $patience ${programs[$client]} "127.0.0.1:$port" >"$scratch/$client" 2>&1 </dev/null &
        children[$client]=$!
    done
    for client in "${clients[@]}"; do
        wait "${children[$client]}"
        judge "$client" "$1" $?
    done
}

run_server() { # memory or folder
    if ! start "$1"; then
        fail "$server cannot be started ($1):"
        cat "$scratch/log"
        return
    fi
    run_clients "$1"
    if ! stop; then
        fail "$server ($1) did not end well:"
        cat "$scratch/log"
    fi
}

for client in "${clients[@]}"; do
    [ -n "${programs[$client]:-}" ] || { echo "no such client: $client" >&2 && exit 2; }
done
if [[ " ${clients[*]} " = *" jackd "* || " ${clients[*]} " = *" node-beanstalk "* ]] &&
    ! install_modules >"$scratch/npm" 2>&1; then
    fail "jackd and node-beanstalk could not be installed, so their stories are not told:"
    cat "$scratch/npm"
    mapfile -t clients < <(printf '%s\n' "${clients[@]}" | grep -vx -e jackd -e node-beanstalk)
fi
if [ ${#clients[@]} != 0 ]; then
    run_server memory
    run_server folder
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
