/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* wcwidth */
#include "cli/print.h"

#include "util/message.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* ---- bytes ---- */

/* Control characters, and those that change the direction of text, which could disguise output. */
static bool is_unsafe(uint32_t point)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
        {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (point >= ranges[i].first && point <= ranges[i].last)
            return true;
    return false;
}

/* Returns the length of the first character if a terminal may show it; 0: it must be escaped. */
static size_t safe_length(const unsigned char *at, size_t size)
{
    uint32_t point = 0;
    size_t length = bi_text_utf8_decode(at, size, &point);
    return length == 0 || is_unsafe(point) ? 0 : length;
}

static void write_escape(FILE *to, unsigned char byte)
{
    static const char names[] = {['\t'] = 't', ['\n'] = 'n', ['\r'] = 'r'};
    if (byte < sizeof(names) && names[byte] != 0)
        fprintf(to, "\\%c", names[byte]);
    else
        fprintf(to, "\\x%02x", byte);
}

/* The same for text of several lines. */
static size_t text_length(const unsigned char *at, size_t size)
{
    return at[0] == '\n' || at[0] == '\t' ? 1 : safe_length(at, size);
}

/* Returns how many bytes can be piped unchanged: a character or byte that is not a control. */
static size_t raw_length(const unsigned char *at, size_t size)
{
    uint32_t point = 0;
    size_t length = bi_text_utf8_decode(at, size, &point);
    if (length == 0)
        return at[0] > 0x9f;
    return point < 0x20 || (point >= 0x7f && point <= 0x9f) ? 0 : length;
}

/* Escapes the bytes for which length_of returns 0. */
static void write_escaped(FILE *to, const unsigned char *bytes, size_t size,
                          size_t (*length_of)(const unsigned char *at, size_t size))
{
    for (size_t i = 0; i < size;) {
        size_t length = length_of(bytes + i, size - i);
        if (length == 0)
            write_escape(to, bytes[i]);
        else
            fwrite(bytes + i, 1, length, to);
        i += length == 0 ? 1 : length;
    }
}

void bi_print_bytes(FILE *to, bool terminal, const void *data, size_t size)
{
    if (terminal)
        write_escaped(to, data, size, text_length);
    else if (size > 0)
        fwrite(data, 1, size, to);
}

void bi_print_line(FILE *to, bool terminal, const void *data, size_t size)
{
    write_escaped(to, data, size, terminal ? safe_length : raw_length);
}

bool bi_print_is_binary(const void *data, size_t size)
{
    const unsigned char *bytes = data;

    for (size_t i = 0, length; i < size; i += length) {
        uint32_t point = 0;
        length = bi_text_utf8_decode(bytes + i, size - i, &point);
        if (length == 0 || point == 0)
            return true;
    }
    return false;
}

void bi_print_sanitize(char *to, size_t room, const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t size = strlen(text), out = 0;

    for (size_t i = 0; i < size;) {
        uint32_t point;
        size_t length = bi_text_utf8_decode(bytes + i, size - i, &point);
        size_t taken = length == 0 ? 1 : length;
        if (out + taken >= room)
            break;
        memcpy(to + out, length == 0 ? "?" : text + i, taken);
        out += taken;
        i += taken;
    }
    to[out] = 0;
}

/* ---- width ---- */

size_t bi_print_char_width(const unsigned char *at, size_t size, int *columns)
{
    uint32_t point = 0;
    size_t length = bi_text_utf8_decode(at, size, &point);
    *columns = length == 0 || is_unsafe(point) ? -1 : wcwidth((wchar_t)point);
    return length;
}

/* One character of an excerpt and its width. */
static size_t render_char(const unsigned char *at, size_t size, char *shown, int *columns)
{
    int width;
    size_t length = bi_print_char_width(at, size, &width);

    *columns = 1;
    if (length == 1 && (at[0] == '\n' || at[0] == '\t' || at[0] == '\r'))
        memcpy(shown, " ", 2);
    else if (width < 0)
        memcpy(shown, ".", 2);
    else {
        memcpy(shown, at, length);
        shown[length] = 0;
        *columns = width;
    }
    return length == 0 ? 1 : length;
}

size_t bi_print_excerpt(char *to, size_t width, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    size_t used = 0, out = 0, cut_out = 0, cut_used = 0, i = 0;

    to[0] = 0;
    while (i < size) {
        char shown[8];
        int columns;
        size_t length = render_char(bytes + i, size - i, shown, &columns);
        /* Characters of width 0 are bounded by the size of the buffer. */
        if (used + (size_t)columns > width || out + strlen(shown) > 4 * width)
            break;
        memcpy(to + out, shown, strlen(shown) + 1);
        out += strlen(shown);
        used += (size_t)columns;
        i += length;
        if (used < width) {
            cut_out = out;
            cut_used = used;
        }
    }

    if (i == size || width == 0)
        return used;
    memcpy(to + cut_out, "…", sizeof("…"));
    return cut_used + 1;
}

size_t bi_print_width(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t width = 0, size = strlen(text);

    for (size_t i = 0; i < size;) {
        char shown[8];
        int columns;
        i += render_char(bytes + i, size - i, shown, &columns);
        width += (size_t)columns;
    }
    return width;
}

/* ---- colors ---- */

const char *bi_print_style(const struct cli *cli, enum bi_print_style style)
{
    static const char *const codes[] = {
        "\x1b[0m", "\x1b[1m", "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m",
    };
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    bool possible = cli->out_terminal && (no == NULL || no[0] == 0) &&
                    (term == NULL || strcmp(term, "dumb") != 0);
    bool on = cli->color == BI_COLOR_ALWAYS || (cli->color == BI_COLOR_AUTO && possible);
    return on && !cli->json ? codes[style] : "";
}

enum bi_print_style bi_print_state_style(bide_state state)
{
    static const enum bi_print_style styles[] = {
        [BIDE_STATE_GONE] = BI_STYLE_DIM,   [BIDE_STATE_DELAYED] = BI_STYLE_DIM,
        [BIDE_STATE_READY] = BI_STYLE_OFF,  [BIDE_STATE_RESERVED] = BI_STYLE_WARN,
        [BIDE_STATE_BURIED] = BI_STYLE_BAD, [BIDE_STATE_DONE] = BI_STYLE_GOOD,
    };
    return (size_t)state < sizeof(styles) / sizeof(styles[0]) ? styles[state] : BI_STYLE_OFF;
}

struct styled_state bi_print_styled_state(const struct cli *cli, bide_state state)
{
    enum bi_print_style style = bi_print_state_style(state);
    const char *on = style == BI_STYLE_OFF ? "" : bi_print_style(cli, style);
    return (struct styled_state){on, bide_state_name(state),
                                 on[0] == 0 ? "" : bi_print_style(cli, BI_STYLE_OFF)};
}

/* ---- numbers ---- */

struct text bi_text_number(uint64_t number)
{
    struct text text;
    char digits[24], *to = text.s;

    int size = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
    for (int i = 0; i < size; i++) {
        *to++ = digits[i];
        if ((size - i - 1) % 3 == 0 && i + 1 < size)
            *to++ = ',';
    }
    *to = 0;
    return text;
}

struct text bi_text_size(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    struct text text;
    int unit = 0;

    /* 1024.0 after rounding is 1.0 of the next unit. */
    for (; value >= 1023.95 && unit < 5; unit++)
        value /= 1024;
    if (bytes < 1024)
        snprintf(text.s, sizeof(text.s), "%u B", (unsigned)bytes);
    else
        snprintf(text.s, sizeof(text.s), "%.1f %s", value, units[unit]);
    return text;
}

struct text bi_text_jobs(uint64_t count)
{
    struct text text;
    snprintf(text.s, sizeof(text.s), "%.26s %s", bi_text_number(count).s,
             count == 1 ? "job" : "jobs");
    return text;
}

struct text bi_text_count(const struct cli *cli, uint64_t number)
{
    struct text text;
    if (cli->out_terminal)
        return bi_text_number(number);
    snprintf(text.s, sizeof(text.s), "%llu", (unsigned long long)number);
    return text;
}

struct text bi_text_duration(int64_t ms)
{
    struct text text;
    bi_duration_format(text.s, ms);
    return text;
}

struct text bi_text_age(int64_t ms)
{
    return ms < 0 ? (struct text){"-"} : bi_text_duration(ms < 1000 ? ms : ms - ms % 1000);
}

struct text bi_text_moment(int64_t at_ms)
{
    struct text text;
    bi_datetime_format(text.s, &bi_calendar_local, at_ms);
    return text;
}

struct text bi_text_moment_from(int64_t at_ms, int64_t now_ms)
{
    struct text text;
    bi_datetime_describe(text.s, &bi_calendar_local, at_ms, now_ms);
    return text;
}

struct text bi_text_failure(const bide_failure *failure)
{
    static const char *const verbs[BIDE_FAILURE_KINDS] = {
        [BIDE_FAILURE_FAILED] = "failed",
        [BIDE_FAILURE_BURIED] = "was buried",
        [BIDE_FAILURE_TIMED_OUT] = "timed out",
        [BIDE_FAILURE_DISCONNECTED] = "lost its connection",
        [BIDE_FAILURE_RESTARTED] = "ended with the queue",
    };
    struct text text;
    snprintf(text.s, sizeof(text.s), "attempt %u %s", failure->attempt, verbs[failure->kind]);
    return text;
}

size_t bi_text_failure_line(const bide_failure *failure, char *line)
{
    const bide_slice *holder = &failure->holder, *error = &failure->error;
    int size =
        sprintf(line, "%s, %s", bi_text_moment(failure->at_ms).s, bi_text_failure(failure).s);

    if (holder->size > 0)
        size += sprintf(line + size, " (%.*s)", (int)holder->size, (const char *)holder->data);
    /* The name of a holder is printed within a line: on a terminal it must not control it. */
    for (int i = 0; i < size; i++)
        if (line[i] >= 0 && line[i] < ' ')
            line[i] = '?';
    if (error->size > 0) {
        size += sprintf(line + size, ": ");
        memcpy(line + size, error->data, error->size);
    }
    line[(size_t)size + error->size] = 0;
    return (size_t)size + error->size;
}

/* ---- properties ---- */

static void print_property_name(const struct cli *cli, const char *name)
{
    printf("%s%-16s%s ", bi_print_style(cli, BI_STYLE_DIM), name,
           bi_print_style(cli, BI_STYLE_OFF));
}

void bi_print_property(const struct cli *cli, const char *name, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_property_name(cli, name);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void bi_print_property_number(const struct cli *cli, const char *name, uint64_t number)
{
    bi_print_property(cli, name, "%s", bi_text_count(cli, number).s);
}

void bi_print_property_bytes(const struct cli *cli, const char *name, const void *data, size_t size)
{
    print_property_name(cli, name);
    bi_print_line(stdout, cli->out_terminal, data, size);
    putchar('\n');
}
