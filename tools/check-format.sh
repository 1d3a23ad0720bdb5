#!/usr/bin/env bash
# check-format.sh [--write] - verify that every C file is formatted by clang-format; --write formats them.
set -u
cd "$(dirname "$0")/.." || exit 1
how='--dry-run --Werror'
[ "${1:-}" = --write ] && how=-i

mapfile -t files < <(find include src tests bench fuzz examples -name '*.[ch]' | LC_ALL=C sort)
if [ ${#files[@]} = 0 ]; then
    echo "no C files found"
    exit 1
fi
# shellcheck disable=SC2086
clang-format --style=file $how "${files[@]}"
