#!/usr/bin/env bash
# check-hardening.sh BUILD - read the built programs and the library: position independent, all
# relocations done and read-only before main(), no executable stack, stack protector, fortified calls.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:?usage: check-hardening.sh BUILD}
passed=0
failed=0

check() { # file, what it has, pattern, option of readelf
    # Not with -q: readelf would report a broken pipe.
    if readelf -W "$4" "$1" 2>/dev/null | grep -E "$3" >/dev/null; then
        passed=$((passed + 1))
    else
        echo "$1 has no $2"
        failed=$((failed + 1))
    fi
}

for file in "$build/bided" "$build/bide" "$build/libbide.so"; do
    check "$file" 'position-independent code' 'Type: +DYN' -h
    check "$file" 'read-only relocations (RELRO)' '^ +GNU_RELRO ' -l
    check "$file" 'binding at the start (BIND_NOW)' 'BIND_NOW|FLAGS_1.* NOW' -d
    check "$file" 'stack without execution' '^ +GNU_STACK .* RW +' -l
    check "$file" 'stack protector' '__stack_chk_fail' --dyn-syms
    check "$file" 'fortified call' '__(memcpy|snprintf|vsnprintf|read)_chk' --dyn-syms
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
