# embed.awk FILE... - a C table of texts (cli/verb.h). In a file .txt a line "# NAME" begins the text NAME,
# without the blank lines before the next one; any other file is a text of its own, named as the file.
function begin(name) {
    printf "%s    {\"%s\",\n     \"", count++ ? "\"},\n" : "", name
    blank = ""
}
BEGIN {
    print "#include \"cli/verb.h\"\n\nconst struct embedded_text bi_embedded_texts[] = {"
}
FNR == 1 {
    file = FILENAME
    sub(/.*\//, "", file)
    sections = file ~ /\.txt$/
    if (!sections)
        begin(file)
}
sections && /^# / {
    begin(substr($0, 3))
    next
}
sections && /^$/ {
    blank = blank "\\n\"\n     \""
    next
}
{
    gsub(/\\/, "&&")
    gsub(/"/, "\\\"")
    printf "%s%s\\n\"\n     \"", blank, $0
    blank = ""
}
END {
    print "\"},\n    {NULL, NULL},\n};"
}
