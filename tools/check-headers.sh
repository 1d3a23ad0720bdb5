#!/usr/bin/env bash
# check-headers.sh - compile every public header alone, as C11 and as C++, and every header of
# src/ alone as C11. Prints "N passed, M failed".
set -u
cd "$(dirname "$0")/.." || exit 1
strict='-Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude'
passed=0
failed=0

try() { # compiler and flags, header
    # shellcheck disable=SC2086
    if printf '#include "%s"\n' "$2" | $1 $strict -; then
        passed=$((passed + 1))
    else
        echo "failed: $1, $2"
        failed=$((failed + 1))
    fi
}

for header in include/bide/*.h; do
    for compiler in 'gcc -std=c11 -x c' 'clang -std=c11 -x c' \
        'g++ -std=c++11 -x c++' 'clang++ -std=c++11 -x c++'; do
        try "$compiler" "${header#include/}"
    done
done
for header in $(find src -name '*.h' | LC_ALL=C sort); do
    try 'gcc -std=gnu11 -x c -Isrc' "${header#src/}"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
