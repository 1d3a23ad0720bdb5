#!/usr/bin/env bash
# check-install.sh BUILD - install into a scratch directory, then compile and run a program
# against what lies there, found by pkg-config alone: once shared, once static. The server comes
# with its man pages and units, the command line with its man page and completion.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:?usage: check-install.sh BUILD}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "$1"
    exit 1
}

# A clone in ~/bide, and PREFIX=$HOME/bide. A copy, because an installation there destroys it.
mkdir "$scratch/bide" && cp -r Makefile include meson.build meson_options.txt tools "$scratch/bide" ||
    fail "the sources could not be copied"
mkdir "$scratch/bide/build" && : >"$scratch/bide/build/build.ninja"
ln -s bide "$scratch/link"
for place in "$scratch/bide" "$scratch/bide/tools/.." "$scratch/link"; do
    make -C "$scratch/bide" install PREFIX="$place" >"$scratch/log" 2>&1 &&
        fail "bide was installed over its own sources, in $place"
    grep -q 'has the sources of bide: choose another PREFIX' "$scratch/log" ||
        fail "an installation over the sources was not refused: $(cat "$scratch/log")"
done
rm -r "$scratch/bide" "$scratch/link"

DESTDIR=$scratch meson install -C "$build" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log" && exit 1; }
pc=$(find "$scratch" -name bide.pc)
[ -n "$pc" ] || fail "bide.pc was not installed"
prefix=$scratch$(sed -n 's/^prefix=//p' "$pc")
# After `make install`, pkg-config finds the library without further settings.
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

if [ -e "$build/bided" ]; then
    "$prefix/bin/bided" -v | grep -q '^bided [0-9]' || fail "bided was not installed, or does not run"
    for file in share/man/man8/bided.8 share/man/man5/bided.conf.5 lib/systemd/system/bided.socket \
        lib/sysusers.d/bide.conf share/doc/bide/bided.conf; do
        [ -s "$prefix/$file" ] || fail "$file was not installed"
    done
    grep -qx "ExecStart=${prefix#"$scratch"}/bin/bided" \
        "$prefix/lib/systemd/system/bided.service" || fail "the unit does not start what was installed"
fi

if [ -e "$build/bide" ]; then
    "$prefix/bin/bide" --version | grep -q '^bide [0-9]' || fail "bide was not installed, or does not run"
    for file in share/man/man1/bide.1 share/bash-completion/completions/bide \
        share/zsh/site-functions/_bide; do
        [ -s "$prefix/$file" ] || fail "$file was not installed"
    done
    bash -n "$prefix/share/bash-completion/completions/bide" || fail "bash does not like what it got"
    zsh -n "$prefix/share/zsh/site-functions/_bide" || fail "zsh does not like what it got"
fi

cat >"$scratch/program.c" <<'END'
#include <bide/task.h>
struct word { const char *text; };
BIDE_TYPE(word, struct word, BIDE_FIELD(text));
int main(void)
{
    bide_buf *json;
    if (bide_encode(word, (struct word){"x"}, &json) != BIDE_OK)
        return 1;
    bide_buf_unref(json);
    return bide_code_name(BIDE_OK) == 0;
}
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
