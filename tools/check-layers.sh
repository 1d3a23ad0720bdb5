#!/usr/bin/env bash
# check-layers.sh - verify that the includes of src/ point down only, that meson builds every source
# file, and that the tour of docs/ARCHITECTURE.md names every file of src/ and no others.
#
#     cli, server -> task -> schedule -> queue -> local, remote -> backend -> store -> core -> op -> util
#
# In src/server only main.c, which chooses the protocols, includes the headers of one.
set -u
cd "$(dirname "$0")/.." || exit 1

awk '
BEGIN {
    n = split("util op core store backend local queue schedule task server", name)
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
    if (FILENAME ~ /^src\/server\/[^\/]*$/ && FILENAME != "src/server/main.c" &&
        file ~ /^server\/.*\//)
        complain("src/server must not include a header of a protocol, \"" file "\"")
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

# The tour has a heading "### src/FOLDER: ..." per folder and a table row per file. A name stands for
# its .c and .h, may be a pattern, and stands for a whole folder if it ends with a slash.
tour() {
    awk '
        /^## / { on = $0 == "## Tour of the source"; folder = "" }
        /^### / { folder = $2 ~ /^src\// ? $2 : ""; sub(/:$/, "", folder) }
        on && folder != "" && /^\| `/ {
            split($0, cell, "|")
            n = split(cell[2], part, "`")
            for (i = 2; i <= n; i += 2)
                print folder "/" part[i]
        }' docs/ARCHITECTURE.md
}
matches() { # name in the tour, file
    case $1 in
    */) [[ $2 = "$1"* ]] ;;
    *) [ "${1%/*}" = "${2%/*}" ] && { [[ $2 = $1 ]] || [[ $2 = $1.[ch] ]]; } ;;
    esac
}
mapfile -t names < <(tour)
mapfile -t files < <(find src -name '*.[ch]' | LC_ALL=C sort)
for file in "${files[@]}"; do
    for name in "${names[@]}"; do
        ! matches "$name" "$file" || continue 2
    done
    echo "$file is not in the tour of docs/ARCHITECTURE.md"
    bad=1
done
for name in "${names[@]}"; do
    for file in "${files[@]}"; do
        ! matches "$name" "$file" || continue 2
    done
    echo "docs/ARCHITECTURE.md: the tour names $name, which does not exist"
    bad=1
done
exit "${bad:-0}"
