#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET...] - build the fuzz targets with clang and run the named ones, or all, for
# that many seconds each. Findings are written to build-fuzz/found; the corpus is kept in
# build-fuzz/corpus. Ends with the line "N passed, M failed".
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
unset CC CXX CFLAGS CPPFLAGS LDFLAGS

if [ ! -f build-fuzz/build.ninja ]; then
    CC=clang meson setup build-fuzz -Dwerror=true -Dfuzz=true -Dtests=disabled -Dbench=false \
        -Dexamples=false -Db_sanitize=address,undefined -Db_lundef=false || exit 1
fi
if [ $# = 0 ]; then
    # shellcheck disable=SC2046
    set -- $(cd fuzz && for source in fuzz_*.c; do basename "${source#fuzz_}" .c; done)
fi
ninja -C build-fuzz --quiet "${@/#/fuzz_}" || exit 1
run=()
if setarch -R true 2>/dev/null; then
    run=(setarch -R)
fi
passed=0
failed=0
for target in "$@"; do
    if [ ! -x "build-fuzz/fuzz_$target" ]; then
        echo "no such target: $target"
        failed=$((failed + 1))
        continue
    fi
    mkdir -p "build-fuzz/corpus/$target" build-fuzz/found
    seeds=()
    if [ -d "fuzz/seeds/$target" ]; then
        seeds=("fuzz/seeds/$target")
    fi
    echo "fuzz_$target, $seconds seconds"
    if "${run[@]}" "build-fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=20 \
        -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="build-fuzz/found/$target-" "build-fuzz/corpus/$target" "${seeds[@]}"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
