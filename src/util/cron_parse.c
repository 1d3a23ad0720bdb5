/* SPDX-License-Identifier: MIT */
#include "util/cron.h"

#include "util/datetime.h"

#include <assert.h>
#include <bide/job.h>
#include <string.h>

/* ---- the fields ---- */

enum { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

/* A range may go beyond `last`, which * and N/STEP end with: 5-7 are Friday to Sunday. */
static const struct field {
    const char *name;
    int first, last, max;
    const char *names; /* three letters each; NULL: none */
    const char *allowed;
} fields[FIELDS] = {
    [SECOND] = {"second", 0, 59, 59, NULL, "0 to 59"},
    [MINUTE] = {"minute", 0, 59, 59, NULL, "0 to 59"},
    [HOUR] = {"hour", 0, 23, 23, NULL, "0 to 23"},
    [DAY] = {"day of the month", 1, 31, 31, NULL, "1 to 31, L, L-3, 15W, LW"},
    [MONTH] = {"month", 1, 12, 12, "janfebmaraprmayjunjulaugsepoctnovdec", "1 to 12, jan to dec"},
    [WEEKDAY] = {"day of the week", 0, 6, 7, "sunmontuewedthufrisat",
                 "0 to 7, sun to sat, 5L, 5#2"},
};

static int count_of(const struct field *field)
{
    return field->last - field->first + 1;
}

/* An expression is parsed one item of a list at a time. */
struct parser {
    const char *text; /* the expression, for positions */
    const struct field *field;
    const char *item, *at, *end; /* the item; its rest begins at `at` */
    uint64_t set;                /* the values of the field so far */
    bool any;                    /* the field has an item with * or ? */
    struct cron *cron;
    char *error;
};

/* ---- errors ---- */

#define QUOTED_SIZE 24

/* Copies a part of the expression for a message, which must be one line of text. */
static void quote(char *to, const char *from, size_t size)
{
    size_t length = size < QUOTED_SIZE ? size : QUOTED_SIZE - 1;
    for (size_t i = 0; i < length; i++)
        to[i] = from[i] < 0x20 || from[i] > 0x7e ? '?' : from[i];
    to[length] = 0;
}

/* `the minute "61" (character 1) <reason>` */
__attribute__((format(printf, 2, 3))) static bool reject(struct parser *parser, const char *format,
                                                         ...)
{
    char quoted[QUOTED_SIZE], reason[160];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);

    quote(quoted, parser->item, (size_t)(parser->end - parser->item));
    return bi_errmsg_set(parser->error, "the %s \"%s\" (character %d) %s", parser->field->name,
                         quoted, (int)(parser->item - parser->text) + 1, reason);
}

static bool reject_syntax(struct parser *parser)
{
    return reject(parser, "is not valid: write %s, ranges (1-5), steps (*/2), or a list of them",
                  parser->field->allowed);
}

/* ---- values ---- */

static bool skip_char(struct parser *parser, char c)
{
    if (parser->at == parser->end || *parser->at != c)
        return false;
    parser->at++;
    return true;
}

/* Consumes a letter of either case. */
static bool skip_letter(struct parser *parser, char upper)
{
    return skip_char(parser, upper) || skip_char(parser, (char)(upper | 0x20));
}

/* Consumes a number, which is 1000 if it is larger. False: there is none. */
static bool parse_number(struct parser *parser, int *number)
{
    const char *begin = parser->at;
    *number = 0;
    for (; parser->at < parser->end && bi_is_digit(*parser->at); parser->at++)
        if (*number < 1000)
            *number = *number * 10 + (*parser->at - '0');
    if (*number > 1000)
        *number = 1000;
    return parser->at > begin;
}

/* Compares with lower-case letters. strncasecmp() would depend on the locale of the program: in
 * Turkish, I is not the capital letter of i. */
static bool same_letters(const char *text, const char *letters, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((text[i] | 0x20) != letters[i])
            return false;
    return true;
}

/* Consumes the name of a month or of a day of the week. */
static bool parse_name(struct parser *parser, int *value)
{
    const char *name = parser->field->names;
    if (name == NULL || parser->end - parser->at < 3)
        return false;

    for (*value = parser->field->first; *name != 0; name += 3, (*value)++)
        if (same_letters(parser->at, name, 3)) {
            parser->at += 3;
            return true;
        }
    return false;
}

/* Consumes a value of the field. Writes the error itself. */
static bool parse_value(struct parser *parser, int *value)
{
    if (parse_name(parser, value))
        return true;
    if (!parse_number(parser, value))
        return reject_syntax(parser);
    if (*value < parser->field->first || *value > parser->field->max)
        return reject(parser, "is out of range: write %s", parser->field->allowed);
    return true;
}

/* ---- items ---- */

/* Adds every step-th value. A range whose end is before its begin goes on with the first value of
 * the field. */
static void add_range(struct parser *parser, int first, int last, int step)
{
    int count = count_of(parser->field), base = parser->field->first;
    if (last < first)
        last += count;
    for (int value = first; value <= last; value += step)
        parser->set |= UINT64_C(1) << (base + (value - base) % count);
}

/* Consumes /STEP, if there is one, and requires the end of the item. */
static bool parse_step(struct parser *parser, bool *has_step, int *step)
{
    *step = 1;
    *has_step = skip_char(parser, '/');
    if (*has_step && !parse_number(parser, step))
        return reject_syntax(parser);
    if (parser->at != parser->end)
        return reject_syntax(parser);
    /* A larger step, as in the minute field for 90 minutes, would not do what it says. */
    if (*step < 1 || *step > count_of(parser->field))
        return reject(parser,
                      "has a step that is out of range: write 1 to %d, or \"every 90m\" "
                      "for other intervals",
                      count_of(parser->field));
    return true;
}

static bool is_at_end(struct parser *parser)
{
    return parser->at == parser->end || reject_syntax(parser);
}

/* L, L-3 and LW of the day of the month. */
static bool parse_last_day(struct parser *parser)
{
    int before = 0;
    if (skip_letter(parser, 'W')) {
        parser->cron->near_days |= 1;
        return is_at_end(parser);
    }

    if (skip_char(parser, '-') && !parse_number(parser, &before))
        return reject_syntax(parser);
    if (before > 30)
        return reject(parser, "is out of range: write L-1 to L-30");
    parser->cron->days_before_last |= UINT32_C(1) << before;
    return is_at_end(parser);
}

/* What may follow a single value: 15W, 5L and 5#2. *done: it did. */
static bool parse_suffix(struct parser *parser, int value, bool *done)
{
    uint8_t weekday = (uint8_t)(1u << value % 7);
    int nth;
    *done = true;

    if (parser->field == &fields[DAY] && skip_letter(parser, 'W')) {
        parser->cron->near_days |= UINT32_C(1) << value;
    } else if (parser->field == &fields[WEEKDAY] && skip_letter(parser, 'L')) {
        parser->cron->last_weekdays |= weekday;
    } else if (parser->field == &fields[WEEKDAY] && skip_char(parser, '#')) {
        if (!parse_number(parser, &nth))
            return reject_syntax(parser);
        if (nth < 1 || nth > 5)
            return reject(parser, "is out of range: write 1 to 5 after the #");
        parser->cron->nth_weekdays[nth - 1] |= weekday;
    } else {
        *done = false;
        return true;
    }
    return is_at_end(parser);
}

static bool parse_item(struct parser *parser)
{
    const struct field *field = parser->field;
    bool is_days = field == &fields[DAY] || field == &fields[WEEKDAY], has_step, done;
    int first = field->first, last = field->last, step;

    if (is_days && skip_char(parser, '?')) {
        parser->any = true;
        add_range(parser, first, last, 1);
        return is_at_end(parser);
    }
    if (field == &fields[DAY] && skip_letter(parser, 'L'))
        return parse_last_day(parser);

    bool is_star = skip_char(parser, '*'), is_range = is_star;
    if (!is_star) {
        if (!parse_value(parser, &first) || !parse_suffix(parser, first, &done))
            return false;
        if (done)
            return true;
        is_range = skip_char(parser, '-');
        if (is_range && !parse_value(parser, &last))
            return false;
    }

    if (!parse_step(parser, &has_step, &step))
        return false;
    if (!is_range && !has_step)
        last = first;
    parser->any = parser->any || is_star;
    add_range(parser, first, last, step);
    return true;
}

/* ---- expressions ---- */

struct word {
    const char *at;
    size_t size;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Splits a text; returns the number of words, of which at most max are set. */
static size_t split(const char *text, const char *end, struct word *words, size_t max)
{
    size_t count = 0;
    while (true) {
        while (text < end && is_space(*text))
            text++;
        if (text == end)
            return count;

        const char *begin = text;
        while (text < end && !is_space(*text))
            text++;
        if (count < max)
            words[count] = (struct word){begin, (size_t)(text - begin)};
        count++;
    }
}

static bool parse_list(struct parser *parser, const struct word *word)
{
    const char *end = word->at + word->size, *comma;
    parser->set = 0;
    parser->any = false;

    for (parser->item = word->at;; parser->item = comma + 1) {
        comma = memchr(parser->item, ',', (size_t)(end - parser->item));
        parser->at = parser->item;
        parser->end = comma == NULL ? end : comma;
        if (!parse_item(parser))
            return false;
        if (comma == NULL)
            return true;
    }
}

static void store_field(struct parser *parser)
{
    struct cron *cron = parser->cron;
    switch (parser->field - fields) {
    case SECOND:
        cron->seconds = parser->set;
        break;
    case MINUTE:
        cron->minutes = parser->set;
        break;
    case HOUR:
        cron->hours = (uint32_t)parser->set;
        break;
    case DAY:
        cron->days = (uint32_t)parser->set;
        cron->any_day = parser->any;
        break;
    case MONTH:
        cron->months = (uint16_t)parser->set;
        break;
    default:
        cron->weekdays = (uint8_t)parser->set;
        cron->any_weekday = parser->any;
    }
}

static bool parse_fields(const char *text, size_t size, struct cron *cron, char *error)
{
    struct parser parser = {.text = text, .cron = cron, .error = error};
    struct word words[FIELDS];
    size_t count = split(text, text + size, words, FIELDS);
    if (count != FIELDS && count != FIELDS - 1)
        return bi_errmsg_set(
            error,
            "a cron expression has 5 fields (minute, hour, day of the month, month, "
            "day of the week) or 6 (with the second before them), not %zu",
            count);

    cron->seconds = 1;
    for (size_t i = 0; i < count; i++) {
        parser.field = &fields[FIELDS - count + i];
        if (!parse_list(&parser, &words[i]))
            return false;
        store_field(&parser);
    }
    return true;
}

static bool is_word(const struct word *word, const char *letters)
{
    return word->size == strlen(letters) && same_letters(word->at, letters, word->size);
}

/* The rest of a word behind @. */
static bool parse_alias(const struct word *word, struct cron *cron, char *error)
{
    static const struct {
        const char *name, *text;
    } aliases[] = {
        {"yearly", "0 0 1 1 *"}, {"annually", "0 0 1 1 *"}, {"monthly", "0 0 1 * *"},
        {"weekly", "0 0 * * 0"}, {"daily", "0 0 * * *"},    {"midnight", "0 0 * * *"},
        {"hourly", "0 * * * *"},
    };
    char quoted[QUOTED_SIZE];

    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (is_word(word, aliases[i].name))
            return parse_fields(aliases[i].text, strlen(aliases[i].text), cron, error);

    quote(quoted, word->at, word->size);
    return bi_errmsg_set(
        error,
        "\"@%s\" is not known: write @hourly, @daily, @midnight, @weekly, @monthly, "
        "@yearly, @annually or @every 15m",
        quoted);
}

/* The rest of an expression behind "every". */
static bool parse_every(const char *text, const char *at, const char *end, struct cron *cron,
                        char *error)
{
    char duration[BI_CRON_TEXT_MAX + 1], quoted[QUOTED_SIZE], reason[BI_ERRMSG_SIZE] = "";
    while (at < end && is_space(*at))
        at++;
    size_t size = (size_t)(end - at);
    assert(size <= BI_CRON_TEXT_MAX);
    memcpy(duration, at, size);
    duration[size] = 0;

    if (bi_duration_parse(duration, &cron->every_ms, reason)) {
        if (cron->every_ms >= 1000)
            return true;
        bi_errmsg_set(reason, "is too short: write at least 1s");
    }
    quote(quoted, at, size);
    return bi_errmsg_set(error, "the duration \"%s\" (character %d) %s", quoted,
                         (int)(at - text) + 1, reason);
}

static bool parse(const char *text, size_t size, struct cron *cron, char *error)
{
    struct word first;
    if (size > BI_CRON_TEXT_MAX)
        return bi_errmsg_set(error, "a schedule expression has at most %d bytes, not %zu",
                             BI_CRON_TEXT_MAX, size);
    if (size > 0 && memchr(text, 0, size) != NULL)
        return bi_errmsg_set(error, "a schedule expression cannot contain a NUL byte");
    if (size == 0 || split(text, text + size, &first, 1) == 0)
        return bi_errmsg_set(error,
                             "the schedule expression is empty: write \"0 9 * * 1-5\", @daily "
                             "or \"every 15m\"");

    bool is_alias = first.at[0] == '@';
    const char *behind = first.at + first.size;
    if (is_alias)
        first = (struct word){first.at + 1, first.size - 1};
    if (is_word(&first, "every"))
        return parse_every(text, behind, text + size, cron, error);
    if (!is_alias)
        return parse_fields(text, size, cron, error);

    if (split(behind, text + size, NULL, 0) > 0)
        return bi_errmsg_set(error, "nothing may follow a name as @daily");
    return parse_alias(&first, cron, error);
}

int bi_cron_parse(const char *text, size_t size, struct cron *out, char *error)
{
    struct cron cron = {.every_ms = 0};
    if (!parse(text, size, &cron, error))
        return BIDE_EINVAL;
    if (!bi_cron_has_days(&cron)) {
        bi_errmsg_set(error, "the expression never occurs: its months have no such day");
        return BIDE_EINVAL;
    }
    *out = cron;
    return 0;
}
