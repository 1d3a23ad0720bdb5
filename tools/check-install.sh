#!/usr/bin/env bash
# check-install.sh BUILD - install into a scratch directory, then compile and run a program
# against what lies there, found by pkg-config alone: once shared, once static.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:?usage: check-install.sh BUILD}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "$1"
    exit 1
}

DESTDIR=$scratch meson install -C "$build" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log" && exit 1; }
pc=$(find "$scratch" -name bide.pc)
[ -n "$pc" ] || fail "bide.pc was not installed"
prefix=$scratch$(sed -n 's/^prefix=//p' "$pc")
# Whoever runs `make install` and then pkg-config finds it without further words.
place=$(dirname "${pc#"$scratch"}")
case :$(pkg-config --variable pc_path pkg-config): in
*:"$place":*) ;;
*) fail "bide.pc lies in $place, where pkg-config does not look" ;;
esac
libdir=$(dirname "$(dirname "$pc")")

bide_flags() {
    PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --define-variable=prefix="$prefix" "$@" bide ||
        fail "pkg-config $* bide failed"
}

cat >"$scratch/program.c" <<'END'
#include <bide/bide.h>
int main(void) { return bide_code_name(BIDE_OK) == 0; }
END

# shellcheck disable=SC2046
gcc -std=c11 -o "$scratch/shared" "$scratch/program.c" $(bide_flags --cflags --libs) ||
    fail "no program could be linked with the shared library"
readelf -d "$scratch/shared" | grep -q 'NEEDED.*\[libbide\.so\.0\]' ||
    fail "the program does not ask for libbide.so.0"
LD_LIBRARY_PATH=$libdir "$scratch/shared" || fail "the shared program failed"

rm "$libdir"/libbide.so*
# shellcheck disable=SC2046
gcc -std=c11 -o "$scratch/static" "$scratch/program.c" \
    $(bide_flags --static --cflags --libs) ||
    fail "no program could be linked with the static library"
"$scratch/static" || fail "the static program failed"
