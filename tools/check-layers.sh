#!/usr/bin/env bash
# check-layers.sh - see that the includes of src/ point down only, and that meson builds every
# source file.
#
#     cli, server -> task -> queue -> local, remote -> backend -> store -> op -> core -> util
set -u
cd "$(dirname "$0")/.." || exit 1

awk '
BEGIN {
    n = split("util core op store backend local queue task server", name)
    for (i = 1; i <= n; i++)
        level[name[i]] = i
    level["remote"] = level["local"]
    level["cli"] = level["server"]
}
function complain(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what
    bad = 1
}
function check(file,    from, to, part) {
    split(FILENAME, part, "/")
    from = part[2]
    if (split(file, part, "/") < 2 || !(part[1] in level)) {
        complain("\"" file "\" does not begin with a layer, as \"core/heap.h\" does")
        return
    }
    to = part[1]
    if (!(from in level))
        complain("src/" from " is not a layer")
    else if (level[to] > level[from] || (level[to] == level[from] && to != from))
        complain("src/" from " must not include \"" file "\"")
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    check(quoted[2])
    seen++
}
END {
    if (!seen)
        print "no include found: is this the source tree?"
    exit bad || !seen
}' $(find src -name '*.[ch]' | LC_ALL=C sort) || bad=1

for file in $(cd src && find . -name '*.c' | LC_ALL=C sort); do
    if ! grep -q "'${file#./}'" src/meson.build; then
        echo "src/${file#./} is not listed in src/meson.build"
        bad=1
    fi
done
exit "${bad:-0}"
