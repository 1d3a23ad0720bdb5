/* SPDX-License-Identifier: MIT */
/*
 * completion_bash.c - the script for bash: generated tables, then functions that use them.
 */
#include "cli/completion.h"

/* ---- tables ---- */

static void print_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text != 0; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, 0}, to);
    fputc('\'', to);
}

static void print_flag_names(FILE *to, const struct flag *flags)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        if (flags->letter != 0)
            fprintf(to, " -%c", flags->letter);
        fprintf(to, " --%s", flags->name);
    }
}

static void print_verbs(FILE *to)
{
    const struct verb *verb;
    fputs("_bide_verbs='", to);
    for (size_t i = 0; (verb = bi_verb_get(i)) != NULL; i++)
        fprintf(to, "%s%s", i == 0 ? "" : " ", verb->name);
    fputs("'\n_bide_states='", to);
    bi_completion_print_states(to);
    fputs("'\n\n", to);
}

static void print_flags(FILE *to, const struct flag *common)
{
    const struct verb *verb;
    fputs("_bide_flags() { # verb: its flags\n    flags='", to);
    print_flag_names(to, common);
    fputs("'\n    case $1 in\n", to);
    for (size_t i = 0; (verb = bi_verb_get(i)) != NULL; i++) {
        if (verb->flags == NULL)
            continue;
        fprintf(to, "    %s) flags+='", verb->name);
        print_flag_names(to, verb->flags);
        fputs("' ;;\n", to);
    }
    fputs("    esac\n}\n\n", to);
}

static void print_flag_values(FILE *to, const char *verb, const struct flag *flags)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        if (flags->value_name == NULL)
            continue;
        fprintf(to, "    %s' --%s'", verb, flags->name);
        if (flags->letter != 0)
            fprintf(to, " | %s' -%c'", verb, flags->letter);
        fputs(") takes=", to);
        print_quoted(to, flags->value_name);
        fputs(" ;;\n", to);
    }
}

/* Flags of the verb have precedence over common ones. */
static void print_values(FILE *to, const struct flag *common)
{
    const struct verb *verb;
    fputs("_bide_takes() { # verb flag: what the flag wants behind it; nothing if it does not\n"
          "    case \"$1 $2\" in\n",
          to);
    for (size_t i = 0; (verb = bi_verb_get(i)) != NULL; i++)
        print_flag_values(to, verb->name, verb->flags);
    print_flag_values(to, "*", common);
    fputs("    *) takes= ;;\n    esac\n}\n\n", to);
}

static void print_slots(FILE *to)
{
    const struct verb *verb;
    struct slots slots;
    fputs("_bide_slots() { # verb: what its words are; more: the last one goes on\n"
          "    slots=() more=\n"
          "    case $1 in\n",
          to);
    for (size_t i = 0; (verb = bi_verb_get(i)) != NULL; i++) {
        bi_completion_parse_usage(&slots, verb->usage);
        if (slots.count == 0)
            continue;
        fprintf(to, "    %s) slots=(", verb->name);
        for (size_t k = 0; k < slots.count; k++) {
            print_quoted(to, slots.name[k]);
            fputs(k + 1 < slots.count ? " " : "", to);
        }
        fprintf(to, ")%s ;;\n", slots.repeats ? " more=1" : "");
    }
    fputs("    esac\n}\n\n", to);
}

/* ---- functions ---- */

static const char functions[] =
    "_bide_topics() { # the server is asked; a topic is never looked at by the shell\n"
    "    local topic quoted\n"
    "    while IFS= read -r topic; do\n"
    "        printf -v quoted %q \"$topic\"\n"
    "        [[ $quoted != \"$cur\"* ]] || COMPREPLY+=(\"$quoted\")\n"
    "    done < <(\"${words[0]}\" completion topics ${url:+--url=\"$url\"} 2>/dev/null)\n"
    "}\n"
    "\n"
    "_bide_lines() { # what compgen prints: one a line\n"
    "    local line\n"
    "    while IFS= read -r line; do\n"
    "        COMPREPLY+=(\"$line\")\n"
    "    done\n"
    "}\n"
    "\n"
    "_bide_among() { _bide_lines < <(compgen -W \"$1\" -- \"$cur\"); }\n"
    "\n"
    "_bide_files() {\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    _bide_lines < <(compgen -f -- \"$cur\")\n"
    "}\n"
    "\n"
    "_bide_offer() { # kind\n"
    "    local part parts\n"
    "    IFS='|' read -ra parts <<<\"$1\"\n"
    "    for part in \"${parts[@]}\"; do\n"
    "        case $part in\n"
    "        TOPIC) _bide_topics ;;\n"
    "        STATE) # or several, with commas\n"
    "            _bide_lines < <(compgen -P \"${cur%\"${cur##*,}\"}\" -W \"$_bide_states\" -- \"${cur##*,}\")\n"
    "            ;;\n"
    "        VERB) _bide_among \"$_bide_verbs\" ;;\n"
    "        FILE | FOLDER | PROGRAM) _bide_files ;;\n"
    "        [a-z]*) [[ $part != \"$cur\"* ]] || COMPREPLY+=(\"$part\") ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    "\n"
    "_bide_words() { # bash has split the line at : and = too: words are what was typed\n"
    "    local i word line=$COMP_LINE\n"
    "    words=()\n"
    "    for ((i = 0; i <= COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if ((i == 0)) || [[ $line == [[:space:]]* || -z $line ]]; then\n"
    "            words+=(\"$word\")\n"
    "        else\n"
    "            words[${#words[@]} - 1]+=$word\n"
    "        fi\n"
    "        line=${line#\"${line%%[![:space:]]*}\"}\n"
    "        line=${line#\"$word\"}\n"
    "    done\n"
    "}\n"
    "\n"
    "_bide_letters() { # -abc: the last letter may want what follows\n"
    "    local i\n"
    "    for ((i = 1; i < ${#1}; i++)); do\n"
    "        flag=-${1:i:1}\n"
    "        _bide_takes \"$verb\" \"$flag\"\n"
    "        if [ -n \"$takes\" ] && ((i + 1 < ${#1})); then\n"
    "            [[ $flag != -u ]] || url=${1:i + 1}\n"
    "            takes=\n"
    "            return\n"
    "        fi\n"
    "    done\n"
    "}\n"
    "\n"
    "_bide_line() { # what stands before the word that is completed\n"
    "    local i word flag=\n"
    "    for ((i = 1; i < ${#words[@]} - 1; i++)); do\n"
    "        word=${words[i]}\n"
    "        if [ -n \"$takes\" ]; then\n"
    "            [[ $flag != --url && $flag != -u ]] || url=$word\n"
    "            takes=\n"
    "            continue\n"
    "        fi\n"
    "        case $word in\n"
    "        --)\n"
    "            behind=$((i + 1))\n"
    "            return\n"
    "            ;;\n"
    "        --url=*) url=${word#*=} ;;\n"
    "        --*=*) ;;\n"
    "        --*)\n"
    "            flag=$word\n"
    "            _bide_takes \"$verb\" \"$flag\"\n"
    "            ;;\n"
    "        -?*) _bide_letters \"$word\" ;;\n"
    "        *) if [ -z \"$verb\" ]; then verb=$word; else count=$((count + 1)); fi ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    "\n"
    "_bide_program() { # behind --: a program and its arguments\n"
    "    ((${#words[@]} - 1 != behind)) || _bide_lines < <(compgen -c -- \"$cur\")\n"
    "    _bide_files\n"
    "}\n"
    "\n"
    "_bide_joined() { # -xVALUE: the value of a letter\n"
    "    local i before=$cur\n"
    "    for ((i = 1; i + 1 < ${#before}; i++)); do\n"
    "        _bide_takes \"$verb\" \"-${before:i:1}\"\n"
    "        if [ -n \"$takes\" ]; then\n"
    "            cur=${before:i + 1}\n"
    "            _bide_offer \"$takes\"\n"
    "            COMPREPLY=(\"${COMPREPLY[@]/#/${before:0:i + 1}}\")\n"
    "            return\n"
    "        fi\n"
    "    done\n"
    "}\n"
    "\n"
    "_bide() {\n"
    "    local words=() slots=() flags='' more='' takes='' verb='' url='' behind='' count=0 cur\n"
    "    COMPREPLY=()\n"
    "    _bide_words\n"
    "    _bide_line\n"
    "    cur=${words[${#words[@]} - 1]}\n"
    "    if [ -n \"$behind\" ]; then\n"
    "        _bide_program\n"
    "    elif [ -n \"$takes\" ]; then\n"
    "        _bide_offer \"$takes\"\n"
    "    elif [[ $cur == --*=* ]]; then\n"
    "        _bide_takes \"$verb\" \"${cur%%=*}\"\n"
    "        cur=${cur#*=}\n"
    "        _bide_offer \"$takes\"\n"
    "    elif [[ $cur == -[!-]?* ]]; then\n"
    "        _bide_joined\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        _bide_flags \"$verb\"\n"
    "        _bide_among \"$flags\"\n"
    "    elif [ -z \"$verb\" ]; then\n"
    "        _bide_offer VERB\n"
    "    else\n"
    "        _bide_slots \"$verb\"\n"
    "        [ -z \"$more\" ] || ((count < ${#slots[@]})) || count=$((${#slots[@]} - 1))\n"
    "        _bide_offer \"${slots[count]:-}\"\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -F _bide bide\n";

void bi_completion_print_bash(FILE *to)
{
    const struct flag *common = bi_verb_common_flags(NULL);
    fputs("# bash completion for bide, made by \"bide completion bash\".\n\n", to);
    print_verbs(to);
    print_flags(to, common);
    print_values(to, common);
    print_slots(to);
    fputs(functions, to);
}
