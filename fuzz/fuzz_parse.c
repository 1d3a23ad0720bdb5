/* SPDX-License-Identifier: MIT */
/*
 * fuzz_parse - any line, understood or not: nothing is read behind its end, nothing depends on what
 * the memory had, what a command points to lies in the line or in the command, and what it says is
 * within the limits. The first byte says whether it is a line of the protocol or the head of a job
 * of put-many.
 */
#define _GNU_SOURCE /* memmem */
#include "fuzz/fuzz.h"
#include "server/beanstalk/beanstalk_parse.h"

#include <string.h>

/* ---- where slices lie ---- */

static bool lies_in(bide_slice slice, const char *data, size_t size)
{
    const char *begin = slice.data;
    return begin >= data && begin <= data + size && slice.size <= (size_t)(data + size - begin);
}

/* Of the line, of the command's own text, or nowhere. */
static bool is_sound(bide_slice slice, const struct command *command, const char *line, size_t size)
{
    return slice.size == 0 || lies_in(slice, line, size) ||
           lies_in(slice, command->text, sizeof(command->text));
}

/* ---- what verbs say ---- */

static bool is_duration(int64_t ms)
{
    return ms >= 0 && ms <= BIDE_TIME_MAX_MS;
}

static bool is_kept_or_duration(int64_t ms)
{
    return ms == BIDE_KEEP || is_duration(ms);
}

/* "none" excludes the default of the topic. */
static bool is_none_or_duration(int64_t ms)
{
    return ms == BIDE_NO_DEFAULT || is_duration(ms);
}

static void look_at_put(const struct command *command)
{
    const bide_put_options *put = &command->put;
    must(put->size == sizeof(*put));
    must(is_duration(put->delay_ms) && is_duration(put->ttr_ms) && put->ttr_ms >= 1);
    must(is_none_or_duration(command->expires_ms) && is_none_or_duration(put->retain_ms));
    must(is_none_or_duration(put->backoff_base_ms) && is_none_or_duration(put->backoff_max_ms));
    must(put->run_at_ms >= 0 && put->run_at_ms <= BIDE_TIMESTAMP_MAX_MS);
    must(put->run_at_ms == 0 || put->delay_ms == 0);
    must(put->max_retries >= BIDE_NO_DEFAULT);
    must(put->key.size <= BIDE_KEY_MAX);
    must(put->key.size == 0 || lies_in(put->key, command->text, sizeof(command->text)));
}

static void look_at_update(const struct command *command, const char *line, size_t size)
{
    const bide_update_args *update = &command->update;
    must(update->id == command->id);
    must(update->priority >= BIDE_KEEP && update->priority <= UINT32_MAX);
    must(is_kept_or_duration(update->delay_ms));
    must(is_kept_or_duration(update->ttr_ms) && update->ttr_ms != 0);
    must(update->delay_ms == BIDE_KEEP || update->run_at_ms == BIDE_KEEP);
    must(is_sound(update->topic, command, line, size));
    must(update->topic.size == 0 ||
         bi_beanstalk_field_is_name(update->topic.data, update->topic.size));
}

static void look_at_list(const struct command *command, const char *line, size_t size)
{
    const bide_filter *filter = &command->filter;
    must(command->count >= 1 && command->count <= BIDE_BATCH_JOBS);
    must(command->name.size == 0 ||
         bi_beanstalk_field_is_name(command->name.data, command->name.size));
    must(is_sound(filter->key, command, line, size) && filter->key.size <= BIDE_KEY_MAX);
    must(is_sound(filter->text, command, line, size) && filter->text.size <= BIDE_TEXT_MAX);
    must(is_duration(filter->min_age_ms) && is_duration(filter->max_age_ms));
    must(memchr(command->cursor, 0, sizeof(command->cursor)) != NULL);
}

static void look_at_step(const struct command *command, const char *line, size_t size)
{
    const bide_finish_and_put_args *step = &command->step;
    must((unsigned)step->ending <= BIDE_ENDING_BURY);
    must(is_kept_or_duration(step->finish.retain_ms) && is_duration(step->delay_ms));
    must(step->priority >= BIDE_KEEP && step->priority <= UINT32_MAX);
    must(step->delay_ms == 0 || step->run_at_ms == 0);
    must(is_sound(step->reason, command, line, size));
    must(command->result_size == 0 || step->finish.keep);
}

static bool is_one_of(enum verb verb, const enum verb *verbs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (verbs[i] == verb)
            return true;
    return false;
}

#define IS_ONE_OF(verb, ...)                          \
    is_one_of(verb, (const enum verb[]){__VA_ARGS__}, \
              sizeof((const enum verb[]){__VA_ARGS__}) / sizeof(enum verb))

static void look_at(const struct command *command, const char *line, size_t size)
{
    enum verb verb = command->verb;
    must(verb < VERB_COUNT && verb != VERB_LEASE && command->counted);
    must(command->wants_body == IS_ONE_OF(verb, VERB_PUT, VERB_PUT_MANY, VERB_FINISH_AND_PUT,
                                          VERB_DONE, VERB_FAIL, VERB_CALL, VERB_SCHEDULE_SET));
    must(!command->leased ||
         (command->token != 0 && IS_ONE_OF(verb, VERB_DELETE, VERB_RELEASE, VERB_BURY, VERB_TOUCH,
                                           VERB_DONE, VERB_FAIL, VERB_FINISH_AND_PUT)));
    if (IS_ONE_OF(verb, VERB_USE, VERB_WATCH, VERB_IGNORE, VERB_STATS_TUBE, VERB_PAUSE_TUBE,
                  VERB_PURGE_TUBE))
        must(lies_in(command->name, line, size) &&
             bi_beanstalk_field_is_name(command->name.data, command->name.size));
    if (IS_ONE_OF(verb, VERB_CALL, VERB_AUTH, VERB_LIST_JOBS))
        must(is_sound(command->name, command, line, size));
    if (IS_ONE_OF(verb, VERB_RELEASE, VERB_PAUSE_TUBE))
        must(is_duration(command->delay_ms));
    if (verb == VERB_FAIL)
        must(is_kept_or_duration(command->delay_ms));
    if (verb == VERB_DONE)
        must(is_kept_or_duration(command->retain_ms));
    if (IS_ONE_OF(verb, VERB_RESERVE_WITH_TIMEOUT, VERB_RESERVE_MANY) || command->has_timeout)
        must(is_duration(command->timeout_ms));
    if (IS_ONE_OF(verb, VERB_PUT_MANY, VERB_RESERVE_MANY, VERB_FINISH_AND_PUT))
        must(command->count >= 1 && command->count <= BIDE_BATCH_JOBS);
    if (verb == VERB_KICK)
        must(command->count <= UINT32_MAX);
    if (verb == VERB_PUT)
        look_at_put(command);
    if (verb == VERB_UPDATE)
        look_at_update(command, line, size);
    if (verb == VERB_FINISH_AND_PUT)
        look_at_step(command, line, size);
    if (verb == VERB_LIST_JOBS)
        look_at_list(command, line, size);
}

/* ---- lines ---- */

/* What beanstalkd would not have read to its end, and what a server looks for after 224 bytes. */
static void look_at_length(const struct command *command, enum parse parse, const char *line,
                           size_t size)
{
    size_t max =
        bi_beanstalk_parse_line_max(line, size < LINE_MAX_CLASSIC ? size : LINE_MAX_CLASSIC);
    must(max == LINE_MAX_CLASSIC || max == LINE_MAX_EXTENDED);
    if (size + 2 <= LINE_MAX_CLASSIC)
        return;
    must(parse != PARSE_OK || max == LINE_MAX_EXTENDED);
    if (max == LINE_MAX_CLASSIC)
        must(!command->counted && !command->wants_body);
}

static void parse_line(const char *line, size_t size)
{
    static struct command command, again;
    memset(&command, 0, sizeof(command));
    memset(&again, 0xff, sizeof(again));
    enum parse parse = bi_beanstalk_parse(&command, line, size);
    must(bi_beanstalk_parse(&again, line, size) == parse);
    must(again.verb == command.verb && again.counted == command.counted);
    must(again.wants_body == command.wants_body && again.body_size == command.body_size);
    must(again.leased == command.leased && again.token == command.token);
    must(parse == PARSE_BAD_FORMAT || memchr(line, 0, size) == NULL);
    must(parse != PARSE_UNKNOWN || command.verb == VERB_NONE);
    must(parse != PARSE_BAD_OPTION || command.wants_body);
    must(command.verb != VERB_NONE || (!command.counted && !command.wants_body));
    look_at_length(&command, parse, line, size);
    if (parse != PARSE_OK)
        return;
    look_at(&command, line, size);
    look_at(&again, line, size);
}

static void parse_item(const char *line, size_t size)
{
    static struct command command;
    memset(&command, 0xff, sizeof(command));
    if (bi_beanstalk_parse_item(&command, line, size) == PARSE_OK)
        look_at_put(&command);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > LINE_MAX_EXTENDED)
        return 0;
    const uint8_t *end = memmem(data + 1, size - 1, "\r\n", 2); /* seeds have one */
    if (end != NULL)
        size = (size_t)(end - data);
    char *line = malloc(size); /* ends with the line */
    must(line != NULL);
    memcpy(line + 1, data + 1, size - 1);
    if (data[0] % 4 == 0)
        parse_item(line + 1, size - 1);
    else
        parse_line(line + 1, size - 1);
    free(line);
    return 0;
}
