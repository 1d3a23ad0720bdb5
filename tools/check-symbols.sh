#!/usr/bin/env bash
# check-symbols.sh [--write] BUILD - compare what the shared library exports with
# tests/symbols.txt; --write creates the list.
set -u
cd "$(dirname "$0")/.." || exit 1
list=tests/symbols.txt
write=
if [ "${1:-}" = --write ]; then
    write=1
    shift
fi
library=${1:?usage: check-symbols.sh [--write] BUILD}/libbide.so

exported=$(nm -D -P --defined-only "$library" | awk '{ print $1 }' | LC_ALL=C sort)
if [ -z "$exported" ]; then
    echo "$library exports nothing"
    exit 1
fi
if [ -n "$write" ]; then
    echo "$exported" >"$list"
else
    echo "$exported" | diff -u "$list" - ||
        { echo "the exported symbols have changed; if this is intended, run: make symbols" && exit 1; }
fi
