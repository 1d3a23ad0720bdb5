/* SPDX-License-Identifier: MIT */
/*
 * A program in C++ that is not only compiled: what it publishes comes back, its tasks have their
 * defaults, and a lambda handles them. Says which line failed.
 */
#include <bide/task.h>

#include <cstdio>
#include <cstring>

#define must(condition)      \
    do {                     \
        if (!(condition))    \
            return __LINE__; \
    } while (0)

enum class size : uint16_t { SMALL, LARGE };

namespace shop
{

struct line {
    const char *article;
    uint32_t count = 1;
};
BIDE_TYPE(line, line, BIDE_FIELD(article), BIDE_FIELD(count));

struct order {
    int64_t number;
    char currency[4];
    enum size size;
    double sum;
    const char *note;
    bool gift;
    bool has_gift;
    line *lines;
    size_t line_count;
    line first;
};
BIDE_TYPE(order, order, BIDE_FIELD(number), BIDE_FIELD(currency), BIDE_FIELD(size), BIDE_FIELD(sum),
          BIDE_OPTIONAL(note), BIDE_OPTIONAL_IF(gift, has_gift),
          BIDE_STRUCTS(lines, line_count, line), BIDE_STRUCT(first, line));
BIDE_TASK(ship, order, .key = "number", .max_retries = 5);
BIDE_TASK(tell, line, .topic = "tell-them");

static const char written[] =
    "{\"number\":7,\"currency\":\"EUR\",\"size\":1,\"sum\":9.99,\"gift\":true,"
    "\"lines\":[{\"article\":\"tea\",\"count\":2}],\"first\":{\"article\":\"cup\",\"count\":1}}";

static int write_and_read()
{
    line tea = {"tea", 2};
    order sent = {7, "EUR", size::LARGE, 9.99, nullptr, true, true, &tea, 1, {.article = "cup"}};
    order *got = nullptr;
    bide_buf *json = nullptr;
    must(bide_encode(order, sent, &json) == BIDE_OK);
    must(strcmp(static_cast<const char *>(bide_buf_data(json)), written) == 0);
    must(bide_decode(order, bide_buf_data(json), bide_buf_size(json), &got) == BIDE_OK);
    must(got->number == 7 && got->size == size::LARGE && got->sum == 9.99 && got->has_gift);
    must(got->line_count == 1 && strcmp(got->lines[0].article, "tea") == 0);
    bide_decoded_free(got);
    bide_buf_unref(json);
    return 0;
}

static int publish_and_handle(bide *queue)
{
    bide_worker *worker = nullptr;
    bide_put_options options = bide_defaults(ship);
    uint32_t sum = 0;
    must(options.max_retries == 5 && options.priority == BIDE_DEFAULT_PRIORITY);
    must(bide_defaults(tell).max_retries == BIDE_TASK_RETRIES);
    must(bide_publish(queue, ship, {}, nullptr, nullptr) == BIDE_EINVAL);
    must(bide_publish(queue, tell, {.article = "tea", .count = 3}, nullptr, nullptr) == BIDE_OK);
    must(bide_worker_new(queue, nullptr, &worker) == BIDE_OK);
    must(bide_handle(
             worker, tell,
             [](bide_context *context, const line *line, void *arg) {
                 *static_cast<uint32_t *>(arg) += line->count;
                 return bide_context_quit(context);
             },
             &sum) == BIDE_OK);
    must(bide_worker_run(worker) == BIDE_OK);
    must(bide_worker_free(worker) == BIDE_OK);
    must(sum == 3);
    return 0;
}

} // namespace shop

int main()
{
    bide *queue = nullptr;
    if (bide_open("memory:", nullptr, &queue) != BIDE_OK)
        return 1;
    int line = shop::write_and_read();
    if (line == 0)
        line = shop::publish_and_handle(queue);
    if (line != 0)
        std::fprintf(stderr, "line %d: %s\n", line, bide_last_error());
    bide_close(queue);
    return line == 0 ? 0 : 1;
}
