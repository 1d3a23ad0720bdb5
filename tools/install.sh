#!/usr/bin/env bash
# install.sh - install the library, bided and bide under $PREFIX, in $LIBDIR of it, staged in $DESTDIR.
#
# Existing builds are installed as they are, so that `make && sudo make install` leaves no files of
# root in the build directory. It builds only if files are missing, or if PREFIX or LIBDIR differ from
# those of the build.
set -u
cd -P "$(dirname "$0")/.." || exit 1
wanted="$PREFIX $LIBDIR"
# Relative to the sources; meson would take it as relative to the build directory.
[ -z "$DESTDIR" ] || DESTDIR=$(realpath -m "$DESTDIR")

# The sources have an include/ as well: an installation there would replace the headers by themselves,
# which deletes them.
if [ "$(realpath -m "$DESTDIR$PREFIX")" = "$PWD" ]; then
    echo "bide: $DESTDIR$PREFIX has the sources of bide: choose another PREFIX, for example:" \
        "make install PREFIX=$HOME/.local" >&2
    exit 1
fi

# Is the nearest existing directory writable?
place=$DESTDIR$PREFIX
while [ ! -e "$place" ]; do
    place=$(dirname "$place")
done
if [ ! -w "$place" ]; then
    echo "bide: cannot write to $place: run \"sudo make install\", or choose another PREFIX" >&2
    exit 1
fi

if [ ! -e build/build.ninja ]; then
    make --no-print-directory build/build.ninja PREFIX="$PREFIX" LIBDIR="$LIBDIR" || exit 1
elif [ "$(cat build/bide-prefix 2>/dev/null)" != "$wanted" ]; then
    meson configure build -Dprefix="$PREFIX" -Dlibdir="$LIBDIR" || exit 1
    echo "$wanted" >build/bide-prefix
    rm -f build/libbide.a build/bided build/bide
fi
complete() {
    local file library
    library=$(sed -n 's/^build \(libbide\.so[.0-9]*\):.*/\1/p' build/build.ninja)
    for file in $library libbide.a bided bide completion/bide completion/_bide; do
        [ -e "build/$file" ] || ! grep -q "^build $file:" build/build.ninja || return 1
    done
}
complete || ninja -C build library || exit 1
DESTDIR=$DESTDIR meson install -C build --no-rebuild || exit 1
if [ -z "$DESTDIR" ] && [ "$(id -u)" = 0 ]; then
    ldconfig
    # systemd looks for units only there.
    case $PREFIX in
    /usr | /usr/local)
        if [ -e build/bided ] && command -v systemctl >/dev/null; then
            echo "bide: to run the server: systemd-sysusers && systemctl enable --now bided"
        fi
        ;;
    esac
fi
