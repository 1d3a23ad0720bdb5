#!/usr/bin/env bash
# run.sh PORT [FLAG...] - build bided and bide, start the server on a SQLite file in build/run, and
# print how to use it once it is ready. It runs until Ctrl-C.
set -u
cd "$(dirname "$0")/.." || exit 1
port=${1:?usage: run.sh PORT [FLAG...]}
shift

# A build directory that is older than the installation of libevent-dev has no bided.
if ! grep -q '^build bided:' build/build.ninja; then
    meson configure build --clearcache && meson setup --reconfigure build >/dev/null || exit 1
fi
if ! grep -q '^build bided:' build/build.ninja; then
    echo "bide: cannot build bided: libevent-dev is missing, or the build has -Dserver=disabled" >&2
    exit 1
fi
# bide tries port 11300 by default.
url=
[ "$port" = 11300 ] || url=" --url beanstalk://127.0.0.1:$port"
programs=(bided)
commands=
if grep -q '^build bide:' build/build.ninja; then
    programs+=(bide)
    commands="put a job, run a program for each (Ctrl-C ends that), and watch:

    build/bide put email 'hello'$url
    build/bide work email$url -- cat
    build/bide top$url

"
fi
ninja -C build "${programs[@]}" || exit 1

store=(--directory build/run)
where="the jobs are in build/run/bide.db: they are still there next time"
if grep -q 'BIDE_WITH_SQLITE' build/compile_commands.json; then
    mkdir -p build/run || exit 1
else
    store=(--url memory:)
    where="the jobs are in memory: this build has no SQLite"
fi

usage() {
cat <<END

bided serves the beanstalkd protocol on 127.0.0.1:$port; $where.
In another terminal ${commands}by hand, for example with nc (netcat-openbsd):

    printf 'put 0 0 60 5\r\nhello\r\npeek-ready\r\nstats\r\nquit\r\n' | nc 127.0.0.1 $port

from a program, with any client of beanstalkd:

    Ruby    Beaneater.new('127.0.0.1:$port').tubes['email'].put('hello')
    PHP     Pheanstalk\Pheanstalk::create('127.0.0.1', $port)->put('hello');
    Python  greenstalk.Client(('127.0.0.1', $port)).put('hello')

Ctrl-C stops it. build/bided --help has every setting.

END
}

# Prints the log, and how to use the server once it is ready, so that an error such as a port in use
# is the last line. Ctrl-C stops bided; its last lines are still printed.
follow() {
    trap '' INT
    local line shown=
    while IFS= read -r line; do
        printf '%s\n' "$line" >&2
        if [ -z "$shown" ] && [[ $line =~ [\ \"]ready ]]; then
            shown=yes
            usage
        fi
    done
}

exec build/bided --config /dev/null "${store[@]}" --listen "127.0.0.1:$port" "$@" 2> >(follow)
