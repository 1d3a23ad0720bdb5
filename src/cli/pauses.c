/* SPDX-License-Identifier: MIT */
#include "cli/pauses.h"

#include "op/op_check.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 1000
/* On a beanstalkd a pause without an end is the longest possible one. */
#define UNLIMITED_MS (BIDE_TIME_MAX_MS - INT64_C(86400000) * 365)

bool bi_pauses_is_endless(const bide_topic_stats *topic)
{
    return topic->paused && topic->pause_left_ms >= UNLIMITED_MS;
}

static struct pause make_pause(const bide_topic_stats *topic)
{
    struct pause pause = {.until_ms = 0};
    memcpy(pause.topic, topic->name, sizeof(pause.topic));
    if (!bi_pauses_is_endless(topic))
        pause.until_ms = bi_clock_wall() / 1000 + topic->pause_left_ms;
    return pause;
}

static int visit_page(const bide_topic_stats *page, size_t count, bi_pauses_fn *visit, void *user)
{
    int exit = BI_EXIT_OK;
    for (size_t i = 0; exit == BI_EXIT_OK && i < count; i++) {
        struct pause pause = make_pause(&page[i]);
        if (page[i].paused)
            exit = visit(user, &pause);
    }
    return exit;
}

int bi_pauses_foreach(const struct cli *cli, bide *queue, bi_pauses_fn *visit, void *user)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_topic_stats *page = calloc(PAGE, sizeof(*page));
    int exit;
    if (page == NULL)
        return bi_cli_error(cli, BI_EXIT_FAILED, "there is not enough memory");
    do {
        size_t count = 0;
        exit = bi_cli_report_last(cli, bide_topics(queue, cursor, page, PAGE, &count));
        if (exit == BI_EXIT_OK)
            exit = visit_page(page, count, visit, user);
    } while (exit == BI_EXIT_OK && cursor[0] != 0);
    free(page);
    return exit;
}

int bi_pauses_set(const struct cli *cli, bide *queue, const struct pause *pause, bool *expired)
{
    int64_t left_ms =
        pause->until_ms == 0 ? BIDE_FOREVER : pause->until_ms - bi_clock_wall() / 1000;
    *expired = pause->until_ms != 0 && left_ms <= 0;
    if (*expired)
        return BI_EXIT_OK;
    return bi_cli_report_last(cli, bide_pause(queue, pause->topic, left_ms));
}

json_t *bi_pauses_to_json(const struct pause *pause)
{
    if (pause->until_ms == 0)
        return json_pack("{s:s, s:s}", "kind", "pause", "topic", pause->topic);
    return json_pack("{s:s, s:s, s:I}", "kind", "pause", "topic", pause->topic, "until_ms",
                     (json_int_t)pause->until_ms);
}

bool bi_pauses_from_json(const json_t *object, struct pause *pause, char *error)
{
    const json_t *topic = json_object_get(object, "topic");
    const json_t *until = json_object_get(object, "until_ms");
    bide_slice name = {json_string_value(topic), json_string_length(topic)};
    *pause = (struct pause){.until_ms = 0};
    if (!json_is_string(topic) || !bi_topic_name_valid(name))
        return bi_errmsg_set(error, "a pause needs the name of a topic");
    if (json_object_size(object) != (until == NULL ? 2u : 3u))
        return bi_errmsg_set(error, "a pause has \"topic\" and \"until_ms\", and nothing else");
    if (until != NULL && (!json_is_integer(until) || json_integer_value(until) <= 0 ||
                          json_integer_value(until) > BIDE_TIMESTAMP_MAX_MS + BIDE_TIME_MAX_MS))
        return bi_errmsg_set(error, "\"until_ms\" is a moment in milliseconds since 1970");
    memcpy(pause->topic, name.data, name.size);
    pause->until_ms = json_integer_value(until);
    return true;
}
