#!/usr/bin/env bash
# check-tidy.sh [--deep] BUILD [FILE...] - run clang-tidy over src/ or the files named; BUILD is a
# build directory of clang.
#
# The static analyzer stops after 20,000 states of a function, which takes a fifth of the time and
# covers nearly all functions as a whole. --deep leaves it its own limit, ten times as many.
set -u
cd "$(dirname "$0")/.." || exit 1
depth=(--extra-arg=-Xclang --extra-arg=-analyzer-config
    --extra-arg=-Xclang --extra-arg=max-nodes=20000)
if [ "${1:-}" = --deep ]; then
    depth=()
    shift
fi
build=${1:?usage: check-tidy.sh [--deep] BUILD [FILE...]}
shift
[ $# -gt 0 ] || mapfile -t sources < <(find src -name '*.c' | LC_ALL=C sort)
[ $# -gt 0 ] || set -- "${sources[@]}"
[ -f "$build/compile_commands.json" ] && [ $# -gt 0 ] || exit 1

# One file at a time: a slow one then delays no others. clang-tidy counts on stderr the
# warnings of foreign headers that it hides; that line is dropped.
printf '%s\0' "$@" |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy -p "$build" --quiet "${depth[@]}" \
        2> >(grep -vE '^[0-9]+ warnings? generated|^Suppressed ' >&2)
