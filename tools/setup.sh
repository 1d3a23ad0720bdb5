#!/usr/bin/env bash
# setup.sh [--check] build|test - verify that the packages for building (or testing) bide are installed.
#
# Missing packages are installed with apt-get as root, or by sudo if it needs no password.
# Otherwise, and always with --check, prints the command to run and exits with code 1.
set -u

# A package, and a command or file that proves its presence if dpkg does not know it. bide can be
# built without the optional packages, with fewer features.
optional_packages='
libcurl4-openssl-dev  /usr/lib/pkgconfig/libcurl.pc
libevent-dev          /usr/include/event2/event.h
libjansson-dev        /usr/include/jansson.h
libncurses-dev        /usr/include/ncurses.h
libsqlite3-dev        /usr/include/sqlite3.h
libsystemd-dev        /usr/include/systemd/sd-daemon.h
tzdata                /usr/share/zoneinfo/Europe/Berlin
'
build_packages='
gcc             gcc
libc6-dev       /usr/include/stdio.h
meson           meson
ninja-build     ninja
pkg-config      pkg-config
'
test_packages='
beanstalkd          beanstalkd
binutils            nm
clang               clang
clang-format        clang-format
clang-tidy          clang-tidy
g++                 g++
libclang-rt-14-dev  -
libcmocka-dev       /usr/include/cmocka.h
llvm                llvm-symbolizer
mandoc              mandoc
nodejs              node
npm                 npm
php-cli             php
php-pda-pheanstalk  /usr/share/php/Pheanstalk/autoload.php
ruby                ruby
ruby-beaneater      /usr/lib/ruby/vendor_ruby/beaneater.rb
tmux                tmux
zlib1g-dev          /usr/include/zlib.h
zsh                 zsh
'

is_installed() { # package proof
    case $2 in
    /*) [ -e "$2" ] && return 0 ;;
    -) ;;
    *) command -v "$2" >/dev/null && return 0 ;;
    esac
    [ "$(dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | head -n 1)" = installed ]
}

missing_of() { # list
    while read -r package proof; do
        [ -z "$package" ] || is_installed "$package" "$proof" || printf ' %s' "$package"
    done <<<"$1"
}

apt() { # prefix packages...
    local prefix=$1
    shift
    echo "bide: installing $*"
    # shellcheck disable=SC2086
    $prefix env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
        $prefix env DEBIAN_FRONTEND=noninteractive \
            apt-get install -q -y --no-install-recommends "$@"
}

check=
if [ "${1:-}" = --check ]; then
    check=1
    shift
fi
case ${1:-} in
build) wanted=$build_packages$optional_packages ;;
test) wanted=$build_packages$optional_packages$test_packages ;;
*)
    echo "usage: tools/setup.sh [--check] build|test" >&2
    exit 2
    ;;
esac

missing=$(missing_of "$wanted")
[ -z "$missing" ] && exit 0

if [ -n "$check" ] && [ "$1" = build ] && [ -z "$(missing_of "$build_packages")" ]; then
    echo "bide: building without$missing" >&2
    for package in $missing; do
        case $package in
        libcurl4-openssl-dev) echo "bide: \"bide work\" will have no --http" >&2 ;;
        libevent-dev) echo "bide: there will be no bided" >&2 ;;
        libjansson-dev)
            echo "bide: there will be no command line, and no structs in tasks" >&2
            ;;
        libncurses-dev) echo "bide: there will be no \"bide top\"" >&2 ;;
        libsqlite3-dev) echo "bide: there will be no sqlite: queues" >&2 ;;
        tzdata) echo "bide: there will be no time zones but UTC and offsets" >&2 ;;
        libsystemd-dev) echo "bide: bided will not support systemd (sockets, notifications)" >&2 ;;
        esac
    done
    exit 0
fi

if [ -z "$check" ] && command -v apt-get >/dev/null; then
    # shellcheck disable=SC2086
    if [ "$(id -u)" = 0 ]; then
        apt "" $missing
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        apt "sudo -n" $missing
    fi
    missing=$(missing_of "$wanted")
    [ -z "$missing" ] && exit 0
fi

as=
[ "$(id -u)" = 0 ] || as='sudo '
{
    echo "bide: these packages are missing; please run:"
    echo
    echo "    ${as}apt-get update && ${as}apt-get install -y --no-install-recommends$missing"
    echo
} >&2
exit 1
