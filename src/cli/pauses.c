/* SPDX-License-Identifier: MIT */
#include "cli/pauses.h"

#include "core/core.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 1000
/* At a beanstalkd "until it is resumed" is as many seconds as there can be. */
#define FOREVER_MS (BIDE_TIME_MAX_MS - INT64_C(86400000) * 365)

static struct pause pause_of(const bide_topic_stats *topic)
{
    struct pause pause = {.until_ms = 0};
    memcpy(pause.topic, topic->name, sizeof(pause.topic));
    if (topic->pause_left_ms < FOREVER_MS)
        pause.until_ms = bi_clock_wall() / 1000 + topic->pause_left_ms;
    return pause;
}

static int tell_page(const bide_topic_stats *page, size_t count, bi_pauses_take *take, void *user)
{
    int exit = BI_EXIT_OK;
    for (size_t i = 0; exit == BI_EXIT_OK && i < count; i++) {
        struct pause pause = pause_of(&page[i]);
        if (page[i].paused)
            exit = take(user, &pause);
    }
    return exit;
}

int bi_pauses_each(const struct cli *cli, bide *queue, bi_pauses_take *take, void *user)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_topic_stats *page = calloc(PAGE, sizeof(*page));
    int exit;
    if (page == NULL)
        return bi_cli_failed(cli, BI_EXIT_FAILED, "there is not enough memory");
    do {
        size_t count = 0;
        exit = bi_cli_answered(cli, bide_topics(queue, cursor, page, PAGE, &count));
        if (exit == BI_EXIT_OK)
            exit = tell_page(page, count, take, user);
    } while (exit == BI_EXIT_OK && cursor[0] != 0);
    free(page);
    return exit;
}

int bi_pauses_set(const struct cli *cli, bide *queue, const struct pause *pause, bool *over)
{
    int64_t left_ms =
        pause->until_ms == 0 ? BIDE_FOREVER : pause->until_ms - bi_clock_wall() / 1000;
    *over = pause->until_ms != 0 && left_ms <= 0;
    if (*over)
        return BI_EXIT_OK;
    return bi_cli_answered(cli, bide_pause(queue, pause->topic, left_ms));
}

json_t *bi_pauses_record(const struct pause *pause)
{
    if (pause->until_ms == 0)
        return json_pack("{s:s, s:s}", "kind", "pause", "topic", pause->topic);
    return json_pack("{s:s, s:s, s:I}", "kind", "pause", "topic", pause->topic, "until_ms",
                     (json_int_t)pause->until_ms);
}

bool bi_pauses_read(const json_t *object, struct pause *pause, char *error)
{
    const json_t *topic = json_object_get(object, "topic");
    const json_t *until = json_object_get(object, "until_ms");
    bide_slice name = {json_string_value(topic), json_string_length(topic)};
    *pause = (struct pause){.until_ms = 0};
    if (!json_is_string(topic) || !bi_is_topic(name))
        return bi_refuse(error, "a pause needs the name of a topic");
    if (json_object_size(object) != (until == NULL ? 2u : 3u))
        return bi_refuse(error, "a pause has \"topic\" and \"until_ms\", and nothing else");
    if (until != NULL && (!json_is_integer(until) || json_integer_value(until) <= 0 ||
                          json_integer_value(until) > BIDE_WHEN_MAX_MS + BIDE_TIME_MAX_MS))
        return bi_refuse(error, "\"until_ms\" is a moment in milliseconds since 1970");
    memcpy(pause->topic, name.data, name.size);
    pause->until_ms = json_integer_value(until);
    return true;
}
