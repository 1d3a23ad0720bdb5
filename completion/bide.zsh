#compdef bide
# zsh completion for bide, made by "bide completion zsh".

_bide() {
    local line
    local -a given lines values
    given=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    lines=("${(@f)$($words[1] completion words -- "${given[@]}" 2>/dev/null)}")
    compset -p ${#lines[1]}
    for line in "${(@)lines[2,-1]}"; do
        case $line in
        :files) _files ;;
        :program*)
            shift $((${line#* } + 1)) words
            ((CURRENT -= ${line#* } + 1))
            _normal
            ;;
        *) values+=("${line/$'\t'/:}") ;;
        esac
    done
    ((${#values} == 0)) || _describe -t words word values
}

_bide "$@"
