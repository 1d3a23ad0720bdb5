/* SPDX-License-Identifier: MIT */
/*
 * The same in C++: C++20, and C++17 where the compiler has designated initialisers.
 */
#include <bide/task.h>

enum color { RED, GREEN };
enum class size : uint16_t { SMALL, LARGE };

namespace shop
{

struct line {
    const char *article;
    uint32_t count;
};
BIDE_TYPE(line, line, BIDE_FIELD(article), BIDE_FIELD(count));
BIDE_TASK(inner, line, .topic = "inner");

} // namespace shop

struct line {
    const char *article = "tea";
    uint32_t count = 1;
};
BIDE_TYPE(line, struct line, BIDE_FIELD(article), BIDE_FIELD(count));

struct node {
    int value;
    node *next;
};
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
    int64_t i64;
    uint8_t u8;
    size_t size;
    enum color color;
    enum size scoped;
    float narrow;
    double wide;
    const char *text;
    char *own_text;
    char chars[16];
    const char fixed_chars[16];
    bide_slice bytes;
    int maybe;
    bool has_maybe;
    const int64_t *numbers;
    size_t number_count;
    const char **texts;
    size_t text_count;
    const char *const *fixed_texts;
    size_t fixed_text_count;
    char (*names)[8];
    size_t name_count;
    bide_slice *blobs;
    size_t blob_count;
    struct line line;
    const struct line *pointer;
    struct line *lines;
    size_t line_count;
    const struct line *fixed_lines;
    size_t fixed_line_count;
    node *list;
};
BIDE_TYPE(everything, everything, BIDE_FIELD(yes), BIDE_FIELD(tiny), BIDE_FIELD(small),
          BIDE_FIELD(medium), BIDE_FIELD(large), BIDE_FIELD(larger), BIDE_FIELD(utiny),
          BIDE_FIELD(usmall), BIDE_FIELD(umedium), BIDE_FIELD(ularge), BIDE_FIELD(ularger),
          BIDE_FIELD(i64), BIDE_FIELD(u8), BIDE_FIELD(size), BIDE_FIELD(color), BIDE_FIELD(scoped),
          BIDE_FIELD(narrow), BIDE_FIELD(wide), BIDE_FIELD(text), BIDE_OPTIONAL(own_text),
          BIDE_FIELD_AS("some chars", chars), BIDE_FIELD(fixed_chars), BIDE_FIELD(bytes),
          BIDE_OPTIONAL_IF(maybe, has_maybe), BIDE_ARRAY(numbers, number_count),
          BIDE_ARRAY(texts, text_count), BIDE_ARRAY(fixed_texts, fixed_text_count),
          BIDE_ARRAY(names, name_count), BIDE_ARRAY(blobs, blob_count), BIDE_STRUCT(line, line),
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

static int on_line(bide_context *context, const line *line, void *arg)
{
    if (arg != nullptr)
        return bide_context_result_as(context, line, *line);
    if (bide_context_publish(context, full, {.article = "tea", .count = 1}, nullptr) ||
        bide_context_publish(context, raw, {"x", 1}, nullptr) ||
        bide_context_put(context, "topic", "x", 1, nullptr))
        return BIDE_RETRY;
    return line->count > 0 ? BIDE_DONE : bide_context_retry(context, "none");
}

static int on_bytes(bide_context *, const bide_slice *body, void *)
{
    return body->size == 0;
}

static void on_failure(bide_context *, const line *, const char *, void *)
{
}

int compile_all(bide *queue, bide_worker *worker);

int compile_all(bide *queue, bide_worker *worker)
{
    line one;
    line *read = nullptr;
    bide_put_options options = bide_defaults(full);
    bide_buf *json = nullptr;
    uint64_t id;
    int code = bide_publish(queue, plain, one, nullptr, nullptr);
    code += bide_publish(queue, full, {.article = "tea", .count = 1}, &options, &id);
    code += bide_publish(queue, raw, {"x", 1}, nullptr, nullptr);
    code += bide_publish(queue, lists, {}, nullptr, nullptr);
    code += bide_handle(worker, plain, on_line, nullptr);
    code += bide_handle(worker, full, &on_line, &one);
    code += bide_handle(worker, raw, on_bytes, nullptr);
    code += bide_handle(
        worker, lists, [](bide_context *, const node *node, void *) { return node->value; },
        nullptr);
    code += bide_fallback(worker, full, on_failure, nullptr);
    code += bide_encode(line, one, &json);
    code += bide_decode(line, "{}", 2, &read);
    bide_decoded_free(read);
    return code;
}
