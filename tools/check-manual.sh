#!/usr/bin/env bash
# check-manual.sh BUILD - verify that man/bide.1 has exactly the verbs and flags of `bide
# help`, that no verb has a flag twice or one that all verbs have, that every exit code is in the page
# and in docs/CLI.md, and that help and pages fit a terminal of 80 columns.
set -u
cd "$(dirname "$0")/.." || exit 1
bide=${1:?usage: check-manual.sh BUILD}/bide
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0

fail() {
    echo "$1"
    failed=1
}

# Lines "VERB -x --name VALUE"; those of every verb have the name "*".
flags_of_help() { # verb, heading, what to call it
    "$bide" help "$1" | awk -v verb="$3" -v heading="$2:" '
        $0 == heading { on = 1; next }
        $0 == "" { on = 0 }
        on && /^  (-., |    )--[a-z]/ {
            letter = substr($0, 3, 1) == "-" ? substr($0, 3, 2) " " : ""
            match($0, /--[a-z0-9-]+/)
            print verb, letter substr($0, RSTART, RLENGTH)
        }'
}

verbs_of_help() {
    "$bide" help | awk '/^Flags of/ { exit } /^[A-Z].*:$/ { on = 1 } on && /^  [a-z]/ { print $1 }'
}

# In the page a verb is a subsection of VERBS, and its flags are items of it.
flags_of_page() {
    awk '
        /^\.Sh / { verb = $0 == ".Sh FLAGS OF EVERY VERB" ? "*" : ""; verbs = $0 == ".Sh VERBS" }
        /^\.Ss / && verbs { verb = $2; print verb, "is a verb" }
        /^\.It Fl / && verb != "" {
            line = verb
            for (i = 2; i <= NF; i++)
                if ($(i - 1) == "Fl")
                    line = line " -" $i
            print line
        }' man/bide.1
}

verbs=$(verbs_of_help)
[ "$(wc -w <<<"$verbs")" -gt 20 ] || fail "bide help names only these verbs: $verbs"
for verb in $verbs; do
    echo "$verb is a verb"
    flags_of_help "$verb" Flags "$verb"
done >"$scratch/help"
flags_of_help help 'Flags of every verb' '*' >>"$scratch/help"
flags_of_page >"$scratch/page"
diff <(sort "$scratch/help") <(sort "$scratch/page") >"$scratch/differences" ||
    fail "man/bide.1 (>) is not what bide help says (<):
$(grep '^[<>]' "$scratch/differences")"

# Every form of a flag, with the verb that has it.
forms=$(awk '/ is a verb$/ { next } { for (i = 2; i <= NF; i++) print $1, $i }' "$scratch/help")
twice=$(sort <<<"$forms" | uniq -d)
[ -z "$twice" ] || fail "flags that a verb has twice: $twice"
hidden=$(awk 'NR == FNR { if ($1 == "*") common[$2] = 1; next } $1 != "*" && $2 in common' \
    <(echo "$forms") <(echo "$forms"))
[ -z "$hidden" ] || fail "flags that hide those of every verb: $hidden"

codes=$(sed -n 's/^ *BI_EXIT_[A-Z_]* = \([0-9]*\),.*/\1/p' src/cli/cli.h)
[ "$(wc -w <<<"$codes")" -gt 8 ] || fail "src/cli/cli.h has only these exit codes: $codes"
for code in $codes; do
    sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EXAMPLES/p' man/bide.1 | grep -qE "^\.It (.* )?$code( |\$)" ||
        fail "exit code $code is not in man/bide.1"
    grep -qE "^\| ([0-9]+, )*${code}[ ,]" docs/CLI.md || fail "exit code $code is not in docs/CLI.md"
done

too_wide() { # what; its text is the input
    local lines
    lines=$(awk 'length > 80')
    [ -z "$lines" ] || fail "$1 has lines of more than 80 columns:
$lines"
}
for verb in $verbs; do
    too_wide "bide help $verb" < <("$bide" help "$verb")
done
too_wide "bide help" < <("$bide" help)
[ ! -e "${bide}d" ] || too_wide "bided --help" < <("${bide}d" --help)
for page in man/*.[1-9]; do
    too_wide "$page" < <(mandoc -T ascii -O width=80 "$page" | sed 's/.\x08//g')
done

mandoc -T lint -W warning man/bide.1 || fail "mandoc has something to say about man/bide.1"
exit "$failed"
