/* SPDX-License-Identifier: MIT */
/*
 * Everything that must compile, without a warning: every kind of field, in every form; tasks with
 * and without defaults; publish and handlers of the right types.
 */
#include <bide/task.h>

enum color { RED, GREEN };

struct line {
    const char *article;
    uint32_t count;
};
BIDE_TYPE(line, struct line, BIDE_FIELD(article), BIDE_FIELD(count));

typedef struct node {
    int value;
    struct node *next;
} node;
BIDE_TYPE(node, node, BIDE_FIELD(value), BIDE_POINTER(next, node));

struct everything {
    bool yes;
    signed char tiny;
    short small;
    int medium;
    long large;
    long long larger;
    unsigned char utiny;
    unsigned short usmall;
    unsigned int umedium;
    unsigned long ularge;
    unsigned long long ularger;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    size_t size;
    enum color color;
    float narrow;
    double wide;
    const char *text;
    char *own_text;
    const char *const fixed_text;
    char chars[16];
    const char fixed_chars[16];
    char letter[1];
    bide_slice bytes;
    const int fixed;
    int maybe;
    bool has_maybe;
    const int64_t *numbers;
    size_t number_count;
    bool *flags;
    size_t flag_count;
    const char **texts;
    size_t text_count;
    const char *const *fixed_texts;
    size_t fixed_text_count;
    char (*names)[8];
    size_t name_count;
    bide_slice *blobs;
    size_t blob_count;
    enum color *colors;
    size_t color_count;
    struct line line;
    const struct line *pointer;
    struct line *lines;
    size_t line_count;
    const struct line *fixed_lines;
    size_t fixed_line_count;
    node *list;
};
BIDE_TYPE(everything, struct everything, BIDE_FIELD(yes), BIDE_FIELD(tiny), BIDE_FIELD(small),
          BIDE_FIELD(medium), BIDE_FIELD(large), BIDE_FIELD(larger), BIDE_FIELD(utiny),
          BIDE_FIELD(usmall), BIDE_FIELD(umedium), BIDE_FIELD(ularge), BIDE_FIELD(ularger),
          BIDE_FIELD(i8), BIDE_FIELD(i16), BIDE_FIELD(i32), BIDE_FIELD(i64), BIDE_FIELD(u8),
          BIDE_FIELD(u16), BIDE_FIELD(u32), BIDE_FIELD(u64), BIDE_FIELD(size), BIDE_FIELD(color),
          BIDE_FIELD(narrow), BIDE_FIELD(wide), BIDE_FIELD(text), BIDE_OPTIONAL(own_text),
          BIDE_OPTIONAL_AS("fixedText", fixed_text), BIDE_FIELD_AS("some chars", chars),
          BIDE_FIELD(fixed_chars), BIDE_FIELD(letter), BIDE_FIELD(bytes), BIDE_FIELD(fixed),
          BIDE_OPTIONAL_IF(maybe, has_maybe), BIDE_ARRAY(numbers, number_count),
          BIDE_ARRAY_AS("flag list", flags, flag_count), BIDE_ARRAY(texts, text_count),
          BIDE_ARRAY(fixed_texts, fixed_text_count), BIDE_ARRAY(names, name_count),
          BIDE_ARRAY(blobs, blob_count), BIDE_ARRAY(colors, color_count), BIDE_STRUCT(line, line),
          BIDE_POINTER(pointer, line), BIDE_STRUCTS(lines, line_count, line),
          BIDE_STRUCTS_AS("fixedLines", fixed_lines, fixed_line_count, line),
          BIDE_POINTER_AS("nodes", list, node));

BIDE_TASK(plain, line);
BIDE_TASK(full, line, .topic = "full-topic", .key = "article, count", .conflict = BIDE_REPLACE,
          .key_hold_retained = true, .priority = 0, .max_retries = BIDE_NO_RETRY_LIMIT,
          .ttr_ms = 1000, .time_limit_ms = 5000, .delay_ms = 1, .backoff_base_ms = 1,
          .backoff_max_ms = 2, .expires_in_ms = 3, .retain_ms = 4);
BIDE_TASK(raw, bytes, .max_retries = 0);
BIDE_TASK(lists, node);

static int on_line(bide_context *context, const struct line *line, void *arg)
{
    if (arg != NULL)
        return bide_context_result_as(context, line, *line);
    if (bide_context_publish(context, full, (struct line){.article = "tea", .count = 1}, NULL) ||
        bide_context_publish(context, raw, (bide_slice){"x", 1}, NULL) ||
        bide_context_put(context, "topic", "x", 1, NULL))
        return BIDE_RETRY;
    return line->count > 0 ? BIDE_DONE : bide_context_retry(context, "none");
}

static int on_bytes(bide_context *context, const bide_slice *body, void *arg)
{
    (void)context;
    (void)arg;
    return body->size == 0;
}

static void on_failure(bide_context *context, const struct line *line, const char *error, void *arg)
{
    (void)context;
    (void)line;
    (void)error;
    (void)arg;
}

int compile_all(bide *queue, bide_worker *worker);

int compile_all(bide *queue, bide_worker *worker)
{
    struct line line = {.article = "tea", .count = 2};
    struct line *read = NULL;
    bide_put_options options = bide_defaults(full);
    bide_buf *json = NULL;
    uint64_t id;
    int code = bide_publish(queue, plain, line, NULL, NULL);
    code += bide_publish(queue, full, (struct line){.article = "tea", .count = 1}, &options, &id);
    code += bide_publish(queue, raw, (bide_slice){"x", 1}, NULL, NULL);
    code += bide_publish(queue, lists, (node){.value = 1}, NULL, NULL);
    code += bide_handle(worker, plain, on_line, NULL);
    code += bide_handle(worker, full, &on_line, &line);
    code += bide_handle(worker, raw, on_bytes, NULL);
    code += bide_fallback(worker, full, on_failure, NULL);
    code += bide_encode(line, line, &json);
    code += bide_decode(line, "{}", 2, &read);
    bide_decoded_free(read);
    return code;
}
