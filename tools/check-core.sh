#!/usr/bin/env bash
# check-core.sh BUILD - verify that the core is pure.
#
# The objects of core, and those of op and util that they link, may call each other and the functions
# listed in tools/core-symbols.txt, and nothing else. They have no writable data.
set -u
cd "$(dirname "$0")/.." || exit 1
library=$(realpath "${1:?usage: check-core.sh BUILD}/libbide.a") || exit 1
allowed=$PWD/tools/core-symbols.txt
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
ar x "$library" || exit 1

ls src_core_*.o >/dev/null || exit 1

# "U symbol object" for a symbol that an object uses, "D symbol object" for one that it defines.
for object in src_core_*.o src_op_*.o src_util_*.o; do
    nm -P -u "$object" | awk -v o="$object" '{ print "U", $1, o }'
    nm -P -g --defined-only "$object" | awk -v o="$object" '{ print "D", $1, o }'
done >symbols

awk -v drawn=drawn '
# __memcpy_chk is what _FORTIFY_SOURCE makes of memcpy.
function plain(name) {
    return name ~ /^__.*_chk$/ ? substr(name, 3, length(name) - 6) : name
}
FILENAME ~ /core-symbols/ {
    sub(/#.*/, "")
    if (NF)
        allowed[$1] = 1
    next
}
$1 == "D" { giver[$2] = $3; if ($3 ~ /^src_core_/) in_core[$3] = 1 }
$1 == "U" { wants[$3] = wants[$3] " " $2 }
END {
    for (object in in_core)
        queue[++last] = object
    for (object in wants)
        if (object ~ /^src_core_/ && !(object in in_core))
            in_core[queue[++last] = object] = 1
    for (next_one = 1; next_one <= last; next_one++) {
        object = queue[next_one]
        print object >drawn
        count = split(wants[object], symbol, " ")
        for (i = 1; i <= count; i++) {
            if (symbol[i] in giver) {
                if (!(giver[symbol[i]] in in_core))
                    in_core[queue[++last] = giver[symbol[i]]] = 1
            } else if (!(plain(symbol[i]) in allowed)) {
                printf "%s uses %s\n", object, symbol[i]
                bad = 1
            }
        }
    }
    exit bad
}' "$allowed" symbols || bad=1

for object in $(LC_ALL=C sort drawn); do
    size -A "$object" | awk -v o="$object" '
        $1 ~ /^\.(data|bss|tdata|tbss)/ && $1 !~ /^\.data\.rel\.ro/ && $2 > 0 {
            printf "%s has %d bytes of writable data in %s\n", o, $2, $1
            bad = 1
        }
        END { exit bad }' || bad=1
done
exit "${bad:-0}"
