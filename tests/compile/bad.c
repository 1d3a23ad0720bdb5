/* SPDX-License-Identifier: MIT */
/*
 * What must not compile: one fault for each CASE that is defined; without any, the file compiles.
 * tools/check-compile.sh tries every name behind an #ifdef.
 */
#include <bide/task.h>

struct line {
    const char *article;
    uint32_t count;
};
BIDE_TYPE(line, struct line, BIDE_FIELD(article), BIDE_FIELD(count));

struct other {
    const char *article;
    uint32_t count;
};
BIDE_TYPE(other, struct other, BIDE_FIELD(article), BIDE_FIELD(count));

BIDE_TASK(pack, line);
BIDE_TASK(mail, other);
BIDE_TASK(raw, bytes);

union either {
    int number;
    float real;
};

struct strange {
    char letter;
    union either either;
    void (*function)(void);
    long double longer;
    void *anything;
    int *pointer;
    int four[4];
    uint32_t **deeper;
    volatile int restless;
    struct line line;
    struct line *lines;
    uint32_t *numbers;
    char *letters;
    size_t count;
    int int_count;
    uint32_t short_count;
    bool flag;
    int int_flag;
    int number;
    const char *text;
};
/* Nothing is wrong with it as such. */
BIDE_TYPE(strange, struct strange, BIDE_OPTIONAL_IF(number, flag), BIDE_FIELD(text),
          BIDE_ARRAY(numbers, count), BIDE_STRUCT(line, line));

struct aligned {
    _Alignas(64) char wide[64];
};

#ifdef FIELD_OF_A_PLAIN_CHAR
BIDE_TYPE(bad, struct strange, BIDE_FIELD(letter));
#endif
#ifdef FIELD_OF_A_UNION
BIDE_TYPE(bad, struct strange, BIDE_FIELD(either));
#endif
#ifdef FIELD_OF_A_FUNCTION_POINTER
BIDE_TYPE(bad, struct strange, BIDE_FIELD(function));
#endif
#ifdef FIELD_OF_A_LONG_DOUBLE
BIDE_TYPE(bad, struct strange, BIDE_FIELD(longer));
#endif
#ifdef FIELD_OF_A_VOID_POINTER
BIDE_TYPE(bad, struct strange, BIDE_FIELD(anything));
#endif
#ifdef FIELD_OF_A_POINTER_TO_INT
BIDE_TYPE(bad, struct strange, BIDE_FIELD(pointer));
#endif
#ifdef FIELD_OF_AN_ARRAY_IN_PLACE
BIDE_TYPE(bad, struct strange, BIDE_FIELD(four));
#endif
#ifdef FIELD_OF_A_VOLATILE
BIDE_TYPE(bad, struct strange, BIDE_FIELD(restless));
#endif
#ifdef FIELD_OF_A_STRUCT
BIDE_TYPE(bad, struct strange, BIDE_FIELD(line));
#endif
#ifdef OPTIONAL_OF_A_UNION
BIDE_TYPE(bad, struct strange, BIDE_OPTIONAL(either));
#endif
#ifdef ARRAY_OF_CHARS
BIDE_TYPE(bad, struct strange, BIDE_ARRAY(letters, count));
#endif
#ifdef ARRAY_OF_POINTERS
BIDE_TYPE(bad, struct strange, BIDE_ARRAY(deeper, count));
#endif
#ifdef ARRAY_OF_STRUCTS
BIDE_TYPE(bad, struct strange, BIDE_ARRAY(lines, count));
#endif
#ifdef ARRAY_OF_NO_POINTER
BIDE_TYPE(bad, struct strange, BIDE_ARRAY(number, count));
#endif
#ifdef COUNT_THAT_IS_AN_INT
BIDE_TYPE(bad, struct strange, BIDE_ARRAY(numbers, int_count));
#endif
#ifdef COUNT_THAT_IS_A_UINT32
BIDE_TYPE(bad, struct strange, BIDE_STRUCTS(lines, short_count, line));
#endif
#ifdef FLAG_THAT_IS_AN_INT
BIDE_TYPE(bad, struct strange, BIDE_OPTIONAL_IF(number, int_flag));
#endif
#ifdef MEMBER_THAT_IS_NOT_THERE
BIDE_TYPE(bad, struct strange, BIDE_FIELD(nowhere));
#endif
#ifdef COUNT_THAT_IS_NOT_THERE
BIDE_TYPE(bad, struct strange, BIDE_ARRAY(numbers, nowhere));
#endif
#ifdef STRUCT_OF_ANOTHER_DESCRIPTION
BIDE_TYPE(bad, struct strange, BIDE_STRUCT(line, other));
#endif
#ifdef POINTER_OF_ANOTHER_DESCRIPTION
BIDE_TYPE(bad, struct strange, BIDE_POINTER(lines, other));
#endif
#ifdef STRUCTS_OF_ANOTHER_DESCRIPTION
BIDE_TYPE(bad, struct strange, BIDE_STRUCTS(lines, count, other));
#endif
#ifdef STRUCT_THAT_IS_A_POINTER
BIDE_TYPE(bad, struct strange, BIDE_STRUCT(lines, line));
#endif
#ifdef POINTER_THAT_IS_A_STRUCT
BIDE_TYPE(bad, struct strange, BIDE_POINTER(line, line));
#endif
#ifdef TYPE_THAT_IS_NOT_DESCRIBED
BIDE_TYPE(bad, struct strange, BIDE_STRUCT(line, nowhere));
#endif
#ifdef STRUCT_WITH_AN_ALIGNMENT_OF_ITS_OWN
BIDE_TYPE(bad, struct aligned, BIDE_FIELD(wide));
#endif
#ifdef TASK_OF_NO_TYPE
BIDE_TASK(bad, nowhere);
#endif
#ifdef TASK_WITH_A_FIELD_THAT_IS_NOT_THERE
BIDE_TASK(bad, line, .retries = 5);
#endif

static int on_line(bide_context *context, const struct line *line, void *arg)
{
    (void)context;
    (void)arg;
    return line == NULL;
}

static int on_other(bide_context *context, const struct other *other, void *arg)
{
    (void)context;
    (void)arg;
    return other == NULL;
}

static int on_changed(bide_context *context, struct line *line, void *arg)
{
    (void)context;
    (void)arg;
    return line == NULL;
}

static void on_nothing(bide_context *context, const struct line *line, void *arg)
{
    (void)context;
    (void)line;
    (void)arg;
}

static long on_long(bide_context *context, const struct line *line, void *arg)
{
    (void)context;
    (void)arg;
    return line == NULL;
}

static int on_two(bide_context *context, const struct line *line)
{
    (void)context;
    return line == NULL;
}

static void on_failure(bide_context *context, const struct line *line, const char *error, void *arg)
{
    (void)context;
    (void)line;
    (void)error;
    (void)arg;
}

static void on_other_failure(bide_context *context, const struct other *other, const char *error,
                             void *arg)
{
    (void)context;
    (void)other;
    (void)error;
    (void)arg;
}

static int on_answered_failure(bide_context *context, const struct line *line, const char *error,
                               void *arg)
{
    (void)context;
    (void)line;
    (void)arg;
    return error == NULL;
}

int compile_bad(bide *queue, bide_worker *worker, bide_context *context);

int compile_bad(bide *queue, bide_worker *worker, bide_context *context)
{
    struct line line = {"tea", 1};
    struct other other = {"tea", 1};
    struct line *read_line = NULL;
    struct other *read_other = NULL;
    bide_buf *json = NULL;
    const void *used[] = {&line,           &other,         &read_line,      &read_other,
                          (void *)queue,   (void *)worker, (void *)context, (void *)worker,
                          (void *)context, (void *)&json};
    bide_function *functions[] = {(bide_function *)on_line,
                                  (bide_function *)on_other,
                                  (bide_function *)on_changed,
                                  (bide_function *)on_nothing,
                                  (bide_function *)on_long,
                                  (bide_function *)on_two,
                                  (bide_function *)on_failure,
                                  (bide_function *)on_other_failure,
                                  (bide_function *)on_answered_failure};
#ifdef PUBLISH_OF_ANOTHER_STRUCT
    bide_publish(queue, pack, other, NULL, NULL);
#endif
#ifdef PUBLISH_OF_A_POINTER
    bide_publish(queue, pack, &line, NULL, NULL);
#endif
#ifdef PUBLISH_OF_ANOTHER_TASKS_STRUCT
    bide_publish(queue, mail, (struct line){"tea", 1}, NULL, NULL);
#endif
#ifdef PUBLISH_OF_A_STRUCT_AS_BYTES
    bide_publish(queue, raw, line, NULL, NULL);
#endif
#ifdef PUBLISH_OF_BYTES_AS_A_STRUCT
    bide_publish(queue, pack, (bide_slice){"x", 1}, NULL, NULL);
#endif
#ifdef PUBLISH_OF_NO_TASK
    bide_publish(queue, nowhere, line, NULL, NULL);
#endif
#ifdef PUBLISH_WITH_TOO_FEW_ARGUMENTS
    bide_publish(queue, pack, line, NULL);
#endif
#ifdef NEXT_OF_ANOTHER_STRUCT
    bide_context_publish(context, pack, other, NULL);
#endif
#ifdef NEXT_OF_A_POINTER
    bide_context_publish(context, pack, &line, NULL);
#endif
#ifdef NEXT_OF_A_STRUCT_AS_BYTES
    bide_context_publish(context, raw, line, NULL);
#endif
#ifdef NEXT_OF_NO_TASK
    bide_context_publish(context, nowhere, line, NULL);
#endif
#ifdef NEXT_WITH_AN_ID
    bide_context_publish(context, pack, line, NULL, NULL);
#endif
#ifdef HANDLER_OF_ANOTHER_STRUCT
    bide_handle(worker, pack, on_other, NULL);
#endif
#ifdef HANDLER_THAT_MAY_CHANGE_THE_DATA
    bide_handle(worker, pack, on_changed, NULL);
#endif
#ifdef HANDLER_THAT_ANSWERS_NOTHING
    bide_handle(worker, pack, on_nothing, NULL);
#endif
#ifdef HANDLER_THAT_ANSWERS_A_LONG
    bide_handle(worker, pack, on_long, NULL);
#endif
#ifdef HANDLER_OF_TWO_ARGUMENTS
    bide_handle(worker, pack, on_two, NULL);
#endif
#ifdef HANDLER_OF_A_STRUCT_FOR_BYTES
    bide_handle(worker, raw, on_line, NULL);
#endif
#ifdef HANDLER_THAT_IS_A_FALLBACK
    bide_handle(worker, pack, on_failure, NULL);
#endif
#ifdef HANDLER_OF_NO_TASK
    bide_handle(worker, nowhere, on_line, NULL);
#endif
#ifdef FALLBACK_OF_ANOTHER_STRUCT
    bide_fallback(worker, pack, on_other_failure, NULL);
#endif
#ifdef FALLBACK_THAT_ANSWERS
    bide_fallback(worker, pack, on_answered_failure, NULL);
#endif
#ifdef FALLBACK_THAT_IS_A_HANDLER
    bide_fallback(worker, pack, on_line, NULL);
#endif
#ifdef DECODE_INTO_ANOTHER_STRUCT
    bide_decode(line, "{}", 2, &read_other);
#endif
#ifdef DECODE_INTO_A_STRUCT
    bide_decode(line, "{}", 2, &line);
#endif
#ifdef DECODE_OF_NO_TYPE
    bide_decode(nowhere, "{}", 2, &read_line);
#endif
#ifdef ENCODE_OF_ANOTHER_STRUCT
    bide_encode(line, other, &json);
#endif
#ifdef ENCODE_OF_A_POINTER
    bide_encode(line, &line, &json);
#endif
#ifdef RESULT_OF_ANOTHER_STRUCT
    bide_context_result_as(context, line, other);
#endif
#ifdef RESULT_OF_NO_TYPE
    bide_context_result_as(context, nowhere, line);
#endif
#ifdef ENCODE_OF_NO_TYPE
    bide_encode(nowhere, line, &json);
#endif
    return used[0] == NULL || functions[0] == NULL;
}
