/* SPDX-License-Identifier: MIT */
#include "pattern.h"

#include <ctype.h>

#define REPEAT_MAX 20000000

/* ---- reading ---- */

struct cursor {
    struct step *step;
    const char *at;
    struct pattern_words *words;
    bool open; /* \c was there: nothing is added */
    const char *wrong;
};

static struct part *add_part(struct step *step, int kind)
{
    step->parts = realloc(step->parts, (step->part_count + 1) * sizeof *step->parts);
    if (!step->parts) {
        perror("memory");
        exit(2);
    }
    struct part *part = &step->parts[step->part_count++];
    memset(part, 0, sizeof *part);
    part->kind = kind;
    return part;
}

static void add_bytes(struct step *step, const char *data, size_t size)
{
    struct part *last = step->part_count > 0 ? &step->parts[step->part_count - 1] : NULL;
    if (!last || last->kind != PART_BYTES)
        last = add_part(step, PART_BYTES);
    bytes_add(&last->bytes, data, size);
}

static void read_word(struct cursor *cursor)
{
    struct pattern_words *words = cursor->words;
    size_t size = 0;
    while (isalnum((unsigned char)cursor->at[size]))
        size++;
    if (size == 0 || size >= sizeof words->names[0]) {
        cursor->wrong = "a name of a kept word has 1 to 15 letters and digits";
        return;
    }
    int found = 0;
    while (found < words->count &&
           (strncmp(words->names[found], cursor->at, size) != 0 || words->names[found][size] != 0))
        found++;
    if (found == WORDS_KEPT) {
        cursor->wrong = "too many kept words";
        return;
    }
    if (found == words->count) {
        memcpy(words->names[found], cursor->at, size);
        words->names[found][size] = 0;
        words->count++;
    }
    add_part(cursor->step, PART_WORD)->word = found;
    cursor->at += size;
}

/* What is repeated may have the escapes \r and \n. */
static void read_repeat(struct cursor *cursor)
{
    char *star = NULL;
    unsigned long count = strtoul(cursor->at, &star, 10);
    const char *close = strchr(cursor->at, '}');
    struct bytes once = {NULL, 0, 0};
    if (!close || *star != '*' || count > REPEAT_MAX) {
        cursor->wrong = "repeat as \\{300*text}";
        return;
    }
    for (const char *from = star + 1; from < close; from++) {
        const char *escape = *from == '\\' ? strchr("rn", from[1]) : NULL;
        bytes_add(&once, !escape ? from : *escape == 'r' ? "\r" : "\n", 1);
        from += escape != NULL;
    }
    for (unsigned long i = 0; i < count; i++)
        add_bytes(cursor->step, once.data, once.size);
    bytes_done(&once);
    cursor->at = close + 1;
}

static void read_range(struct cursor *cursor)
{
    unsigned long long low = 0;
    unsigned long long high = 0;
    int used = 0;
    if (sscanf(cursor->at, "%llu..%llu]%n", &low, &high, &used) != 2 || used == 0) {
        cursor->wrong = "a range as \\[58..59]";
        return;
    }
    struct part *part = add_part(cursor->step, PART_RANGE);
    part->low = low;
    part->high = high;
    cursor->at += used;
}

static void read_hex(struct cursor *cursor)
{
    char digits[3] = {0};
    if (!isxdigit((unsigned char)cursor->at[0]) || !isxdigit((unsigned char)cursor->at[1])) {
        cursor->wrong = "two digits after \\x";
        return;
    }
    memcpy(digits, cursor->at, 2);
    char byte = (char)strtoul(digits, NULL, 16);
    add_bytes(cursor->step, &byte, 1);
    cursor->at += 2;
}

static void read_escape(struct cursor *cursor)
{
    static const char names[] = "rnt0\\";
    static const char bytes[] = "\r\n\t\0\\";
    char name = *cursor->at++;
    const char *simple = name ? strchr(names, name) : NULL;
    if (simple)
        add_bytes(cursor->step, &bytes[simple - names], 1);
    else if (name == 'x')
        read_hex(cursor);
    else if (name == '{')
        read_repeat(cursor);
    else if (name == '[')
        read_range(cursor);
    else if (name == 'd')
        add_part(cursor->step, PART_DIGITS);
    else if (name == '_')
        add_part(cursor->step, PART_LINE);
    else if (name == 'y')
        add_part(cursor->step, PART_SIZE);
    else if (name == 'c' && *cursor->at == 0)
        cursor->open = true;
    else
        cursor->wrong = "no such escape";
}

const char *pattern_parse(struct step *step, const char *end, struct pattern_words *words)
{
    struct cursor cursor = {step, step->text, words, false, NULL};
    while (*cursor.at && !cursor.wrong) {
        char byte = *cursor.at++;
        if (byte == '\\') {
            read_escape(&cursor);
        } else if (byte == '$' && *cursor.at != '$') {
            read_word(&cursor);
        } else {
            if (byte == '$')
                cursor.at++;
            add_bytes(step, &byte, 1);
        }
    }
    if (!cursor.open)
        add_bytes(step, end, strlen(end));
    for (size_t i = 0; i < step->part_count && step->action != ACTION_EXPECT; i++)
        if (step->parts[i].kind > PART_WORD)
            return "this escape is for what is expected";
    return cursor.wrong;
}

void pattern_done(struct step *step)
{
    for (size_t i = 0; i < step->part_count; i++)
        bytes_done(&step->parts[i].bytes);
    free(step->parts);
    step->parts = NULL;
    step->part_count = 0;
}

/* ---- writing ---- */

bool pattern_is_complete(const struct step *step, const struct pattern_values *values)
{
    for (size_t i = 0; i < step->part_count; i++)
        if (step->parts[i].kind == PART_WORD && !values->values[step->parts[i].word])
            return false;
    return true;
}

void pattern_write(const struct step *step, const struct pattern_values *values, struct bytes *out)
{
    for (size_t i = 0; i < step->part_count; i++) {
        const struct part *part = &step->parts[i];
        if (part->kind == PART_WORD)
            bytes_text(out, values->values[part->word]);
        else
            bytes_add(out, part->bytes.data, part->bytes.size);
    }
}

/* ---- comparing ---- */

struct comparison {
    struct pattern_values *values;
    const char *data;
    size_t size, at;
    char *found[WORDS_KEPT]; /* words that become known if all is the same */
    int64_t yaml_size;
};

static enum pattern_match compare_bytes(struct comparison *comparison, const char *data,
                                        size_t size)
{
    size_t left = comparison->size - comparison->at;
    size_t common = left < size ? left : size;
    if (common > 0 && memcmp(comparison->data + comparison->at, data, common) != 0)
        return MATCH_DIFFERENT;
    comparison->at += common;
    return common == size ? MATCH_SAME : MATCH_INCOMPLETE;
}

/* How many bytes from here are of this kind; the first that is not must have come. */
static enum pattern_match run(struct comparison *comparison, bool (*of_kind)(char byte),
                              size_t *size)
{
    size_t end = comparison->at;
    while (end < comparison->size && of_kind(comparison->data[end]))
        end++;
    if (end == comparison->size)
        return MATCH_INCOMPLETE;
    *size = end - comparison->at;
    return MATCH_SAME;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_in_line(char byte)
{
    return byte != '\r' && byte != '\n';
}

static bool is_in_word(char byte)
{
    return is_in_line(byte) && byte != ' ' && byte != '"';
}

static enum pattern_match compare_number(struct comparison *comparison, const struct part *part)
{
    size_t size = 0;
    enum pattern_match answer = run(comparison, is_digit, &size);
    if (answer != MATCH_SAME)
        return answer;
    if (size == 0 || size > 20)
        return MATCH_DIFFERENT;
    uint64_t number = strtoull(comparison->data + comparison->at, NULL, 10);
    comparison->at += size;
    if (part->kind == PART_SIZE)
        comparison->yaml_size = (int64_t)number;
    if (part->kind == PART_RANGE && (number < part->low || number > part->high))
        return MATCH_DIFFERENT;
    return MATCH_SAME;
}

static enum pattern_match compare_word(struct comparison *comparison, const struct part *part)
{
    const char *value = comparison->values->values[part->word];
    size_t size = 0;
    if (!value)
        value = comparison->found[part->word];
    if (value)
        return compare_bytes(comparison, value, strlen(value));
    enum pattern_match answer = run(comparison, is_in_word, &size);
    if (answer != MATCH_SAME)
        return answer;
    if (size == 0)
        return MATCH_DIFFERENT;
    comparison->found[part->word] = strndup(comparison->data + comparison->at, size);
    comparison->at += size;
    return MATCH_SAME;
}

static enum pattern_match compare_part(struct comparison *comparison, const struct part *part)
{
    size_t size = 0;
    enum pattern_match answer;
    switch (part->kind) {
    case PART_BYTES:
        return compare_bytes(comparison, part->bytes.data, part->bytes.size);
    case PART_WORD:
        return compare_word(comparison, part);
    case PART_LINE:
        answer = run(comparison, is_in_line, &size);
        comparison->at += size;
        return answer;
    default:
        return compare_number(comparison, part);
    }
}

enum pattern_match pattern_compare(const struct step *step, struct pattern_values *values,
                                   const char *data, size_t size, size_t *used, int64_t *yaml_size)
{
    struct comparison comparison = {.values = values, .data = data, .size = size, .yaml_size = -1};
    enum pattern_match answer = MATCH_SAME;
    for (size_t i = 0; i < step->part_count && answer == MATCH_SAME; i++)
        answer = compare_part(&comparison, &step->parts[i]);
    for (int i = 0; i < WORDS_KEPT; i++) {
        if (answer == MATCH_SAME && comparison.found[i])
            values->values[i] = comparison.found[i];
        else
            free(comparison.found[i]);
    }
    if (answer == MATCH_SAME) {
        *used = comparison.at;
        if (comparison.yaml_size >= 0)
            *yaml_size = comparison.yaml_size;
    }
    return answer;
}

void pattern_forget(struct pattern_values *values)
{
    for (int i = 0; i < WORDS_KEPT; i++)
        free(values->values[i]);
    *values = (struct pattern_values){{NULL}};
}
