#!/usr/bin/env bash
# check-tidy.sh BUILD [FILE...] - run clang-tidy over src/ or the files named; BUILD is a build
# directory of clang.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:?usage: check-tidy.sh BUILD [FILE...]}
shift
[ $# -gt 0 ] || mapfile -t sources < <(find src -name '*.c' | LC_ALL=C sort)
[ $# -gt 0 ] || set -- "${sources[@]}"
[ -f "$build/compile_commands.json" ] && [ $# -gt 0 ] || exit 1

# One file at a time: a slow one then delays no others. clang-tidy counts on stderr the
# warnings of foreign headers that it hides; that line is dropped.
printf '%s\0' "$@" |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy -p "$build" --quiet \
        2> >(grep -vE '^[0-9]+ warnings? generated|^Suppressed ' >&2)
