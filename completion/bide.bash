# bash completion for bide, made by "bide completion bash".

_bide_add() { # what compgen prints: one a line
    local line
    while IFS= read -r line; do
        COMPREPLY+=("$prefix$line")
    done
}

_bide() {
    local i word prefix='' line=$COMP_LINE words=()
    # bash has split the line at : and = too: words are what was typed
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i == 0)) || [[ $line == [[:space:]]* || -z $line ]]; then
            words+=("$word")
        else
            words[${#words[@]} - 1]+=$word
        fi
        line=${line#"${line%%[![:space:]]*}"}
        line=${line#"$word"}
    done
    word=${words[${#words[@]} - 1]}
    COMPREPLY=()
    {
        IFS= read -r prefix
        while IFS=$'\t' read -r line _; do
            if [[ $line == :* ]]; then
                compopt -o filenames 2>/dev/null
                [[ $line != ":program $((${#words[@]} - 2))" ]] ||
                    _bide_add < <(compgen -c -- "$word")
                _bide_add < <(compgen -f -- "${word#"$prefix"}")
                continue
            fi
            # a topic is never looked at by the shell
            [[ $line != *[!A-Za-z0-9_-]* ]] || printf -v line %q "$line"
            [[ $prefix$line != "$word"* ]] || COMPREPLY+=("$prefix$line")
        done
    } < <("${words[0]}" completion words -- "${words[@]:1}" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*[:=]}"}"}")
}

complete -F _bide bide
