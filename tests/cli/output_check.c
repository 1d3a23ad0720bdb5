/* SPDX-License-Identifier: MIT */
/* output_check.c - what a child has written, as text and as JSON. */
#define _GNU_SOURCE /* memmem */
#include "cli_test.h"

#include <string.h>

void has_at(struct where at, const struct output *output, const char *wanted, bool must)
{
    bool has = memmem(output->text, output->size, wanted, strlen(wanted)) != NULL;
    if (has != must)
        fail_test(at, "expected %s\"%s\" in:\n%s", must ? "" : "no ", wanted, output->text);
    check_true(at, true, wanted);
}

void output_is_at(struct where at, const struct output *output, const char *wanted,
                  const char *text)
{
    check_text(at, output->text, output->size, wanted, text);
}

int count_of(const struct output *output, const char *text)
{
    int count = 0;
    const char *end = output->text + output->size;
    for (const char *from = output->text;
         (from = memmem(from, (size_t)(end - from), text, strlen(text))) != NULL; from++)
        count++;
    return count;
}

json_t *json_of_at(struct where at, const struct output *output)
{
    json_t *list = json_array();
    json_error_t error;
    for (const char *line = output->text, *end; *line != 0; line = end + 1) {
        end = strchr(line, '\n');
        if (end == NULL)
            fail_test(at, "a last line without an end: %s", line);
        json_t *value = json_loadb(line, (size_t)(end - line), JSON_DECODE_ANY, &error);
        if (value == NULL)
            fail_test(at, "no JSON: %.*s: %s", (int)(end - line), line, error.text);
        json_array_append_new(list, value);
    }
    check_true(at, strlen(output->text) == output->size, "no NUL in JSON");
    return list;
}

json_t *json_line_at(struct where at, const struct output *output, size_t line)
{
    json_t *value = json_array_get(json_of_at(at, output), line);
    if (value == NULL)
        fail_test(at, "there is no line %zu of JSON in:\n%s", line, output->text);
    return value;
}

int64_t number_in_at(struct where at, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value))
        fail_test(at, "no integer \"%s\" in %s", name, json_dumps(object, JSON_ENCODE_ANY));
    return json_integer_value(value);
}

const char *text_in_at(struct where at, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_string(value))
        fail_test(at, "no string \"%s\" in %s", name, json_dumps(object, JSON_ENCODE_ANY));
    return json_string_value(value);
}
