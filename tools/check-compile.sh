#!/usr/bin/env bash
# check-compile.sh BUILD - verify that correct code compiles without a warning, and that incorrect
# code does not: tests/compile/good_*.c and .cc as they are; bad.c and bad.cc once without any CASE, which
# must compile, and once for each name behind an #ifdef in them, which must not. run.cc is also run,
# with the library in BUILD; so is version.c, with headers of an older and of a newer version, in which
# each options struct has a member less or more, and a job one more. Prints "N passed, M failed".
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(cd "${1:?usage: check-compile.sh BUILD}" && pwd) || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
strict='-Wall -Wextra -Wpedantic -Werror'
c='gcc -std=c11|clang -std=c11'
cpp='g++ -std=c++20|clang++ -std=c++20'

# Each trial prints one line: ok, or the error.

must_compile() { # compiler and flags, file
    local said
    # shellcheck disable=SC2086
    if said=$($1 -fsyntax-only -Iinclude "$2" 2>&1); then
        echo ok
    else
        echo "does not compile: $1 $2"
        head -n 20 <<<"$said" | sed 's/^/    /'
    fi
}

must_not_compile() { # compiler and flags, file, case
    # shellcheck disable=SC2086
    if $1 -fsyntax-only -w -Iinclude -D"$3" "$2" >/dev/null 2>&1; then
        echo "compiles: $1 -D$3 $2"
    else
        echo ok
    fi
}

must_run() { # compiler and flags, file, folder of the headers
    local said program
    program=$(mktemp "$scratch/XXXXXX")
    # shellcheck disable=SC2086
    if said=$($1 -I"${3:-include}" "$2" -o "$program" -L"$build" -lbide "-Wl,-rpath,$build" 2>&1 &&
        timeout 60 "$program" 2>&1); then
        echo ok
    else
        echo "does not run: $1 $2"
        head -n 20 <<<"$said" | sed 's/^/    /'
    fi
}

try_all() { # compilers, suffix
    local compilers compiler file name
    IFS='|' read -ra compilers <<<"$1"
    for compiler in "${compilers[@]}"; do
        for file in tests/compile/good_*."$2"; do
            must_compile "$compiler $strict" "$file"
        done
        must_compile "$compiler $strict" "tests/compile/bad.$2"
        # bad.cc includes bad.c.
        for name in $(sed -n 's/^#ifdef \([A-Z0-9_]*\)$/\1/p' tests/compile/bad.c "tests/compile/bad.$2" |
            sort -u); do
            must_not_compile "$compiler" "tests/compile/bad.$2" "$name"
        done
    done
}

other_headers() { # makes $scratch/older and $scratch/newer
    local type
    cp -r include "$scratch/older" && cp -r include "$scratch/newer" || return 1
    for type in bide_options bide_put_options bide_worker_options; do
        sed -i "s/^} $type;/    uint64_t future_;\n&/" "$scratch"/newer/bide/*.h
        # The last line of the struct, and the last value of its INIT macro.
        sed -zEi "s/\n[^\n]*(\n} $type;)/\1/
            s/(#define ${type^^}_INIT[^#]*), (NULL|0)( *\\\\\n *})/\1\3/" "$scratch"/older/bide/*.h
    done
    sed -i '/options\.fallbacks =/d' "$scratch/older/bide/task.h"
    # A new member of a job replaces reserved room.
    sed -zEi 's/(holder_buf_;[^\n]*\n\n    uint64_t )room_\[8\];/\1future_, room_[7];/' "$scratch/newer/bide/job.h"
}

other_headers || exit 1
output=$(
    try_all "$c" c &
    try_all "$cpp" cc &
    must_run "g++ -std=c++20 $strict" tests/compile/run.cc &
    must_run "clang++ -std=c++20 $strict" tests/compile/run.cc &
    must_run "gcc -std=c11 -Wall -Werror -DOLDER" tests/compile/version.c "$scratch/older" &
    must_run "gcc -std=c11 -Wall -Werror -DNEWER" tests/compile/version.c "$scratch/newer" &
    # Designated initialisers before C++20 are an extension of g++.
    must_compile 'g++ -std=c++17 -Wall -Wextra -Werror' tests/compile/good_all.cc &
    wait
)
grep -vx ok <<<"$output"
passed=$(grep -cx ok <<<"$output")
failed=$(grep -cE '^(does not compile|does not run|compiles): ' <<<"$output")
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 100 ]
