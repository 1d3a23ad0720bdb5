/* SPDX-License-Identifier: MIT */
/*
 * fuzz_parse - any line, understood or not: nothing is read behind its end, and what a command points
 * to lies in the line or in the command. The first byte says whether it is a line of the protocol or
 * the head of a job of put-many.
 */
#include "fuzz/fuzz.h"
#include "server/beanstalk_parse.h"

#include <string.h>

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

static void look_at(const struct command *command, const char *line, size_t size)
{
    must(command->verb < VERB_COUNT);
    must(is_sound(command->name, command, line, size));
    if (command->verb == VERB_PUT) {
        must(is_sound(command->put.key, command, line, size));
        must(command->put.key.size <= BIDE_KEY_MAX);
    }
    if (command->verb == VERB_UPDATE)
        must(is_sound(command->update.topic, command, line, size));
    if (command->verb == VERB_LIST_JOBS) {
        must(is_sound(command->filter.key, command, line, size));
        must(is_sound(command->filter.text, command, line, size));
        must(memchr(command->cursor, 0, sizeof(command->cursor)) != NULL);
    }
}

static void parse_line(const char *line, size_t size)
{
    static struct command command;
    memset(&command, 0, sizeof(command));
    size_t max = bi_beanstalk_line_max(line, size);
    must(max == LINE_MAX_OLD || max == LINE_MAX_MORE);
    enum parse parse = bi_beanstalk_parse(&command, line, size);
    if (parse == PARSE_OK)
        look_at(&command, line, size);
    must(parse != PARSE_BAD_OPTION || command.wants_body);
    must(bi_beanstalk_word(command.verb) != NULL || command.verb == VERB_NONE);
}

static void parse_item(const char *line, size_t size)
{
    static struct command command;
    memset(&command, 0, sizeof(command));
    if (bi_beanstalk_parse_item(&command, line, size) != PARSE_OK)
        return;
    must(is_sound(command.put.key, &command, line, size));
    must(command.put.key.size <= BIDE_KEY_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > LINE_MAX_MORE)
        return 0;
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
