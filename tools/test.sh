#!/usr/bin/env bash
# test.sh [STEP...] - run every step, or those named, and end with the line "N passed, M failed".
#
# Every step runs in a process of its own with a time limit and counts its checks. A step fails if
# it counts nothing, exits with an error or times out. The output of a step is printed only if it
# fails. Build directories are kept: build-<compiler>.
set -u
cd "$(dirname "$0")/.." || exit 1
unset CC CXX CFLAGS CPPFLAGS LDFLAGS

# name, time limit in seconds, description
steps='
gcc         480  build with gcc, warnings as errors
clang       480  build with clang and its address sanitizer, warnings as errors
layers       40  includes point down, every source is built
headers     120  every header compiles alone, as C11 and as C++
compile     480  tasks and types: code with type errors does not compile, correct code does
core        480  the core is pure
symbols     480  the library exports what tests/symbols.txt lists
hardening   480  installed files are built with the protections that the compiler has
install     480  the installed files are complete and work; the man page has every verb and flag
format      120  every C file is formatted by clang-format
tidy        900  clang-tidy reports nothing
unit        480  unit tests
contract   1200  contract suite
tasks       300  tasks and workers on every URL
examples    480  every example, and the programs of the README, run
sim         600  simulator, 1.2 million steps
fault       800  loss of power, failing and full disks, kill -9
wire        600  transcripts of the protocol, on bided and on beanstalkd
differ      600  random commands to bided and to beanstalkd
fuzz        800  every fuzz target for 5 seconds
serverbench 300  the benchmarks of servers, workers and attacks run
interop     480  clients of Ruby, PHP and Node.js; the library and beanstalkd
operation   600  bided as a program: flags, file, sockets, signals, log, privileges
cli         480  bide as a program: every verb, on every kind of queue
robust      480  bided under storms, clients that do not read, random input, kill -9
taskfault   480  worker processes that crash or stop; lost servers and disks
bare        600  builds without SQLite, JSON, curl and ncurses, and names what is missing
asan       1800  most suites with the address and undefined sanitizers
tsan       1800  unit, contract, tasks, operation, robust, taskfault with the thread sanitizer
'
urls='memory: memory:?ticker=wheel sqlite: sqlite:?sync=off&cache_bytes=1&batch_jobs=7
    beanstalk: beanstalk:?behind=sqlite&sync=off'
# The server of "beanstalk:" has its queue in memory.
sanitizer_urls='sqlite:?sync=off&cache_bytes=1&batch_jobs=7 beanstalk:'

# Counting. A step appends lines "passed failed" to the file $counts.

count() { # passed failed
    echo "$1 $2" >>"$counts"
}

check() { # command...
    if "$@"; then
        count 1 0
    else
        echo "failed: $*"
        count 0 1
    fi
}

says() { # text, command...: the command must fail with a message that has the text
    local text=$1 output
    shift
    output=$("$@" 2>&1 </dev/null) && return 1
    [[ $output = *"$text"* ]] || {
        echo "$output"
        return 1
    }
}

# A program whose last line is "N passed, M failed". Shown in full unless all passed.
check_counted() { # command...
    local output status last
    output=$("$@" 2>&1)
    status=$?
    last=$(tail -n 1 <<<"$output")
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        local passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}
        if [ "$failed" = 0 ] && [ "$status" = 0 ] && [ "$passed" != 0 ]; then
            count "$passed" 0
            return
        fi
        [ "$failed" != 0 ] || failed=1
        count "$passed" "$failed"
    else
        count 0 1
    fi
    printf '%s\n' "$output"
    echo "failed (exit code $status): $*"
}

# A cmocka program. Planned tests without a report, as after a crash, and skipped tests count as
# failed.
check_unit() { # program
    local output status planned passed failed
    output=$(CMOCKA_MESSAGE_OUTPUT=TAP timeout --foreground 60 "${run[@]}" "$1" 2>&1)
    status=$?
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' <<<"$output" | awk '{ n += $1 } END { print n + 0 }')
    passed=$(grep -E '^ok [0-9]+' <<<"$output" | grep -vc '# SKIP')
    failed=$((planned > passed ? planned - passed : 0))
    [ "$failed" != 0 ] || { [ "$status" = 0 ] && [ "$passed" != 0 ]; } || failed=1
    count "$passed" "$failed"
    if [ "$failed" != 0 ]; then
        printf '%s\n' "$output"
        echo "failed (exit code $status): $1"
    fi
}

# Building, one directory at a time. A directory with other options is created again.

build() { # name compiler option...
    local dir=build-$1 compiler=$2 wanted="$*" status=0
    shift 2
    exec 8<tools/test.sh
    flock 8
    if [ "$(cat "$dir/bide-setup" 2>/dev/null)" != "$wanted" ]; then
        rm -rf "$dir"
        CC=$compiler meson setup "$dir" --libdir lib -Dwerror=true -Dtests=enabled "$@" &&
            echo "$wanted" >"$dir/bide-setup" || status=1
    fi
    [ "$status" != 0 ] || ninja -C "$dir" --quiet || status=1
    exec 8<&-
    return "$status"
}

# clang builds only with a sanitizer: no other programs of clang are run.
build_gcc() { build gcc gcc; }
build_asan() { build_sanitized asan address,undefined; }
build_tsan() { build_sanitized tsan thread; }
build_sanitized() { # name sanitizers
    build "$1" clang -Db_sanitize="$2" -Db_lundef=false -Doptimization=1 -Dbench=false \
        -Dexamples=false
}

# Running the programs of one build directory. The sanitizers of clang 14 may fail with address
# space randomization, so it is disabled where the system allows that.

run=()
plain_memory() {
    if setarch -R true 2>/dev/null; then
        run=(setarch -R)
    fi
}

# Runs a command in the background, at most four at a time: tests mostly sleep. The caller waits for
# the end of all.
begin() { # command...
    while [ "$(jobs -pr | wc -l)" -ge 4 ]; do
        wait -n
    done
    "$@" &
}

begin_unit() { # build directory
    local source
    for source in tests/unit/test_*.c; do
        begin check_unit "$1/tests/$(basename "$source" .c)"
    done
}

begin_suite() { # build directory, program, URLs
    local dir=$1 program=$2 url part
    shift 2
    for url in "$@"; do
        for part in 1/3 2/3 3/3; do
            begin check_counted "${run[@]}" "$dir/$program" --part "$part" "$url"
        done
    done
}

begin_parts() { # program, argument...
    local part
    for part in 1/4 2/4 3/4 4/4; do
        begin check_counted "${run[@]}" "$@" --part "$part"
    done
}

begin_sim() { # build directory, steps, ranges of seeds
    local dir=$1 length=$2 seeds
    shift 2
    for seeds in "$@"; do
        begin check_counted "${run[@]}" "$dir/sim" --seeds "$seeds" --steps "$length"
    done
}

begin_fault() { # build directory, rounds of kill -9
    begin_parts "$1/fault"
    begin check_counted "${run[@]}" "$1/kill" --rounds "$2" --seed 1
}

# The steps.

step_gcc() { check build_gcc; }
step_clang() { check build_asan; }
step_layers() { check tools/check-layers.sh; }
step_headers() { check_counted tools/check-headers.sh; }
step_compile() { build_gcc && check_counted tools/check-compile.sh build-gcc; }
step_core() { build_gcc && check tools/check-core.sh build-gcc; }
step_symbols() { build_gcc && check tools/check-symbols.sh build-gcc; }
step_hardening() { build_gcc && check_counted tools/check-hardening.sh build-gcc; }
step_install() {
    build_gcc || return 1
    check tools/check-install.sh build-gcc
    check tools/check-manual.sh build-gcc
}

step_format() { check tools/check-format.sh; }
step_tidy() { build_asan && check tools/check-tidy.sh build-asan; }
step_unit() { build_gcc && begin_unit build-gcc && wait; }
# shellcheck disable=SC2086
step_contract() { build_gcc && begin_suite build-gcc contract $urls && wait; }
# shellcheck disable=SC2086
step_tasks() { build_gcc && begin_suite build-gcc tasks $urls && wait; }
step_examples() { build_gcc && check_counted tools/check-examples.sh build-gcc; }
step_fault() { build_gcc && begin_fault build-gcc 40 && wait; }

step_fuzz() { check_counted tools/fuzz.sh 5; }

step_wire() {
    build_gcc || return 1
    # They mostly sleep, so all run at the same time.
    check_counted build-gcc/wire --server beanstalkd --deliver burst &
    check_counted build-gcc/wire --server 'build-gcc/bided --url memory:' &
    check_counted build-gcc/wire --server 'build-gcc/bided --url sqlite:@/jobs.db' \
        --deliver burst &
    wait
}

step_differ() {
    build_gcc || return 1
    check_counted build-gcc/differ --self-test
    check_counted build-gcc/differ --right 'build-gcc/bided --url memory:' --seeds 1-12
    check_counted build-gcc/differ --left 'beanstalkd -b @ -f 0' \
        --right 'build-gcc/bided --url sqlite:@/jobs.db?sync=full' --seeds 13-18
}

# The benchmarks verify every reply and must end; their figures are not checked.
step_serverbench() {
    build_gcc || return 1
    check build-gcc/bench server --quick --repeat 1 --pin same
    check build-gcc/bench worker --quick --repeat 1
    check build-gcc/bench abuse --quick
    check test "$(build-gcc/bench server --beanstalkd /nowhere 2>&1 | grep -c 'no beanstalkd')" -eq 1
}
run_robust() { # build directory, seconds of random input, option of robust...
    local dir=$1 seconds=$2
    shift 2
    check_counted "${run[@]}" "$dir/robust" --server "$dir/bided" "$@"
    check_counted "${run[@]}" "$dir/livefuzz" --server "$dir/bided" --seconds "$seconds"
    check_counted "${run[@]}" "$dir/livefuzz" --server "$dir/bided" --seconds "$seconds" \
        --in file --parameters sync=off
}

step_robust() {
    build_gcc || return 1
    run_robust build-gcc 5
    check_counted build-gcc/killserver --server build-gcc/bided --rounds 10
    check_counted build-gcc/killserver --server build-gcc/bided --chains 300
    check_counted build-gcc/killserver --at file --chains 200
    check_counted build-gcc/killschedule --server build-gcc/bided --schedules 20 --seconds 6 \
        --kill-ms 300
}
step_interop() {
    build_gcc || return 1
    check_counted tests/interop/run.sh --build build-gcc
    check_counted build-gcc/plain
}

step_operation() { build_gcc && check_counted build-gcc/operation; }

step_cli() { build_gcc && begin_parts build-gcc/cli && wait; }

step_taskfault() { build_gcc && begin_parts build-gcc/taskfault --server build-gcc/bided && wait; }

# Builds without libsqlite3-dev, libcurl4-openssl-dev and libncurses-dev, first also without
# libjansson-dev.
step_bare() {
    build bare gcc -Doptimization=0 -Dsqlite=disabled -Djansson=disabled -Dcurl=disabled \
        -Dncurses=disabled || return 1
    begin_suite build-bare contract memory: && wait
    check says 'built without libsqlite3-dev' build-bare/contract sqlite:
    check says 'say --url memory:' build-bare/bided --config=/dev/null --check-config
    check build-bare/bided --config=/dev/null --url memory: --check-config
    check_unit build-bare/tests/test_type_bytes
    check test ! -e build-bare/bide
    build lean gcc -Doptimization=0 -Dsqlite=disabled -Dcurl=disabled -Dncurses=disabled \
        -Dtests=disabled -Dbench=false -Dexamples=false || return 1
    check says 'built without ncurses' script -qec 'build-lean/bide --url memory: top' /dev/null
    check says 'without libcurl' build-lean/bide --url memory: work x --http http://localhost
    check says 'libsqlite3-dev' build-lean/bide --url sqlite:jobs.db stats
}

step_sim() { build_gcc && begin_sim build-gcc 30000 1-20 21-40 && wait; }

step_asan() {
    # When a cancelled thread ends, it writes to unwound frames, which are still poisoned.
    export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1:use_sigaltstack=0
    export UBSAN_OPTIONS=print_stacktrace=1
    build_asan || return 1
    plain_memory
    # The longest first.
    begin_fault build-asan 10
    # shellcheck disable=SC2086
    begin_suite build-asan contract $sanitizer_urls
    begin run_robust build-asan 5 --memory-mib 2048 --timeout 240
    begin_parts build-asan/taskfault --server build-asan/bided
    begin_parts build-asan/cli --at bided # every verb; starting a process is dear here
    # shellcheck disable=SC2086
    begin_suite build-asan tasks $sanitizer_urls
    begin check_counted "${run[@]}" build-asan/operation --timeout 240
    begin check_counted "${run[@]}" build-asan/wire --server 'build-asan/bided --url memory:' \
        --deliver burst
    begin_unit build-asan
    begin check_counted "${run[@]}" build-asan/differ --right 'build-asan/bided --url memory:' \
        --seeds 1-4
    begin_sim build-asan 10000 1-4 5-8
    wait
}

step_tsan() {
    # Some tests fork() in a process with threads and continue in the child.
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:die_after_fork=0
    # A copy, because tests drop privileges and other users may not be able to read the clone.
    local suppressions
    suppressions=$(mktemp) && cp tools/tsan-suppressions.txt "$suppressions" &&
        chmod 644 "$suppressions" || return 1
    # shellcheck disable=SC2064
    trap "rm -f '$suppressions'" EXIT
    TSAN_OPTIONS+=:suppressions=$suppressions
    build_tsan || return 1
    plain_memory
    # shellcheck disable=SC2086
    begin_suite build-tsan contract $sanitizer_urls
    begin run_robust build-tsan 5 --memory-mib 2048 --timeout 240
    begin_parts build-tsan/taskfault --server build-tsan/bided
    # shellcheck disable=SC2086
    begin_suite build-tsan tasks $sanitizer_urls
    begin check_counted "${run[@]}" build-tsan/operation --timeout 240
    begin_unit build-tsan
    wait
}

if [ "${1:-}" = --step ]; then
    counts=$3
    "step_$2"
    status=$?
    times >"$counts.cpu" # of this shell and of its children: not in a pipe, which is a child
    exit "$status"
fi

# The driver. The first two steps build what the others use. The others run three at a time, because
# many mostly sleep; with sanitizers, which use all processors, two at a time.

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM

total_passed=0
total_failed=0
running=0
declare -A name_of limit_of text_of began_at

begin_step() { # name seconds description
    : >"$scratch/$1.counts"
    timeout -k 10 "$2" tools/test.sh --step "$1" "$scratch/$1.counts" \
        >"$scratch/$1.log" 2>&1 </dev/null &
    name_of[$!]=$1
    limit_of[$1]=$2
    text_of[$1]=$3
    began_at[$1]=$SECONDS
    running=$((running + 1))
}

end_step() { # waits for one of them
    local pid status name passed failed seconds cpu
    wait -n -p pid
    status=$?
    running=$((running - 1))
    name=${name_of[$pid]}
    read -r passed failed < <(awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }' \
        "$scratch/$name.counts")
    seconds=$((SECONDS - began_at[$name]))
    cpu=$(tr 'ms' '  ' <"$scratch/$name.counts.cpu" 2>/dev/null |
        awk '{ sum += ($1 + $3) * 60 + $2 + $4 } END { printf "%d", sum }')
    # timeout(1) reports 137 for its own SIGKILL, but also for that of others (out of memory, kill -9).
    if [ "$status" = 124 ] || { [ "$status" = 137 ] && [ "$seconds" -ge "${limit_of[$name]}" ]; }; then
        echo "timed out after ${limit_of[$name]} seconds" >>"$scratch/$name.log"
        failed=$((failed + 1))
    elif [ "$status" -gt 128 ]; then
        echo "killed by signal $((status - 128)) (SIG$(kill -l "$status")) after $seconds seconds" \
            >>"$scratch/$name.log"
        failed=$((failed + 1))
    elif [ $((passed + failed)) = 0 ]; then
        echo "nothing was counted (exit code $status)" >>"$scratch/$name.log"
        failed=1
    elif [ "$status" != 0 ] && [ "$failed" = 0 ]; then
        failed=1
    fi
    printf '%-11s %s ... %s passed, %s failed (%s s, CPU %s s)\n' "$name" "${text_of[$name]}" \
        "$passed" "$failed" "$seconds" "$cpu"
    if [ "$failed" != 0 ]; then
        sed 's/^/    /' "$scratch/$name.log"
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
}

for name in "$@"; do
    if ! grep -q "^$name " <<<"$steps"; then
        echo "no such step: $name; the steps are:$steps" >&2
        exit 2
    fi
done

while read -r name seconds description <&3; do
    [ -n "$name" ] || continue
    [ $# = 0 ] || [[ " $* " = *" $name "* ]] || continue
    most=3
    case $name in asan | tsan) most=2 ;; esac
    while [ "$running" -ge "$most" ]; do
        end_step
    done
    begin_step "$name" "$seconds" "$description"
    case $name in gcc | clang) end_step ;; esac
done 3<<<"$steps"
while [ "$running" -gt 0 ]; do
    end_step
done

echo "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ]
