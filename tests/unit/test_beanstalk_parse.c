/* SPDX-License-Identifier: MIT */
/*
 * Lines of the protocol, and what is made of them. A command is told as text, so that a case is a
 * line and the words for it.
 */
#include "unit.h"

#include "server/beanstalk/beanstalk_parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 4096

static struct command command;

/* ---- a command as text ---- */

struct text {
    char bytes[TEXT_SIZE];
    size_t size;
};

static void say(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text->bytes + text->size, TEXT_SIZE - text->size, format, args);
    va_end(args);
    assert_true(size >= 0 && (size_t)size < TEXT_SIZE - text->size);
    text->size += (size_t)size;
}

/* Bytes that are not plain are told as <hex>. */
static void say_bytes(struct text *text, const char *before, bide_slice slice)
{
    const unsigned char *bytes = slice.data;
    say(text, "%s", before);
    for (size_t i = 0; i < slice.size; i++)
        say(text, bytes[i] > 32 && bytes[i] < 127 ? "%c" : "<%02x>", bytes[i]);
}

static void say_put(struct text *text)
{
    const bide_put_options *put = &command.put;
    say(text, " %u %" PRId64 " %" PRId64 " %u", put->priority, put->delay_ms, put->ttr_ms,
        command.body_size);
    if (put->key.size > 0)
        say_bytes(text, " key=", put->key);
    if (put->conflict == BIDE_REPLACE)
        say(text, " replace");
    if (put->key_hold_retained)
        say(text, " retained");
    if (put->max_retries != BIDE_NO_RETRY_LIMIT)
        say(text, " retries=%d", put->max_retries);
    if (put->backoff_base_ms != 0 || put->backoff_max_ms != 0)
        say(text, " backoff=%" PRId64 ",%" PRId64, put->backoff_base_ms, put->backoff_max_ms);
    if (command.expires_ms != 0)
        say(text, " expires=%" PRId64, command.expires_ms);
    if (put->retain_ms != 0)
        say(text, " retain=%" PRId64, put->retain_ms);
    if (put->run_at_ms != 0)
        say(text, " at=%" PRId64, put->run_at_ms);
}

static void say_id(struct text *text)
{
    say(text, " %" PRIu64, command.id);
}

static void say_release(struct text *text)
{
    say(text, " %" PRIu64 " %u %" PRId64, command.id, command.priority, command.delay_ms);
}

static void say_bury(struct text *text)
{
    say(text, " %" PRIu64 " %u", command.id, command.priority);
}

static void say_timeout(struct text *text)
{
    say(text, " %" PRId64, command.timeout_ms);
}

static void say_name(struct text *text)
{
    say_bytes(text, " ", command.name);
}

static void say_pause(struct text *text)
{
    say_bytes(text, " ", command.name);
    say(text, " %" PRId64, command.delay_ms);
}

static void say_count(struct text *text)
{
    say(text, " %" PRIu64, command.count);
}

static void say_put_many(struct text *text)
{
    say(text, " %" PRIu64 " %u", command.count, command.body_size);
}

static void say_reserve_many(struct text *text)
{
    say(text, " %" PRIu64 " %" PRId64, command.count, command.timeout_ms);
}

static void say_done(struct text *text)
{
    say(text, " %" PRIu64 " %u retain=%" PRId64, command.id, command.body_size, command.retain_ms);
}

static void say_fail(struct text *text)
{
    say(text, " %" PRIu64 " %u retry=%" PRId64, command.id, command.body_size, command.delay_ms);
}

static void say_step(struct text *text)
{
    static const char *const endings[] = {"delete", "release", "bury"};
    const bide_finish_and_put_args *step = &command.step;
    say(text, " %" PRIu64 " %" PRIu64 " %u %s", command.id, command.count, command.body_size,
        step->finish.keep ? "done" : endings[step->ending]);
    say(text, " result=%u retain=%" PRId64 " pri=%" PRId64 " delay=%" PRId64 " at=%" PRId64,
        command.result_size, step->finish.retain_ms, step->priority, step->delay_ms,
        step->run_at_ms);
    say_bytes(text, " reason=", step->reason);
}

static void say_result(struct text *text)
{
    say_id(text);
    if (command.has_timeout)
        say_timeout(text);
}

static void say_update(struct text *text)
{
    const bide_update_args *update = &command.update;
    assert_int_equal(update->id, command.id);
    say(text, " %" PRIu64 " pri=%" PRId64 " delay=%" PRId64 " at=%" PRId64 " ttr=%" PRId64,
        update->id, update->priority, update->delay_ms, update->run_at_ms, update->ttr_ms);
    say_bytes(text, " tube=", update->topic);
}

static void say_list_jobs(struct text *text)
{
    const bide_filter *filter = &command.filter;
    say_bytes(text, " tube=", command.name);
    say(text, " %s %" PRIu64, bide_state_name(command.state), command.count);
    say_bytes(text, " key=", filter->key);
    say_bytes(text, " text=", filter->text);
    say(text, " age=%" PRId64 ",%" PRId64 " cursor=%s", filter->min_age_ms, filter->max_age_ms,
        command.cursor);
}

static void say_purge(struct text *text)
{
    say_bytes(text, " ", command.name);
    say(text, " %s", bide_state_name(command.state));
}

static void say_call(struct text *text)
{
    say(text, " %" PRIu64, command.tag);
    say_bytes(text, " ", command.name);
    say(text, " %u", command.body_size);
}

static void say_tag(struct text *text)
{
    say(text, " %" PRIu64, command.tag);
}

static void (*const arguments[VERB_COUNT])(struct text *text) = {
    [VERB_PUT] = say_put,
    [VERB_RESERVE] = say_timeout,
    [VERB_DELETE] = say_id,
    [VERB_RESERVE_WITH_TIMEOUT] = say_timeout,
    [VERB_RELEASE] = say_release,
    [VERB_BURY] = say_bury,
    [VERB_TOUCH] = say_id,
    [VERB_CALL] = say_call,
    [VERB_RESERVE_MANY] = say_reserve_many,
    [VERB_PUT_MANY] = say_put_many,
    [VERB_FINISH_AND_PUT] = say_step,
    [VERB_DONE] = say_done,
    [VERB_FAIL] = say_fail,
    [VERB_USE] = say_name,
    [VERB_WATCH] = say_name,
    [VERB_IGNORE] = say_name,
    [VERB_KICK] = say_count,
    [VERB_KICK_JOB] = say_id,
    [VERB_PEEK] = say_id,
    [VERB_RESERVE_JOB] = say_id,
    [VERB_STATS_JOB] = say_id,
    [VERB_STATS_TUBE] = say_name,
    [VERB_PAUSE_TUBE] = say_pause,
    [VERB_RESULT] = say_result,
    [VERB_UPDATE] = say_update,
    [VERB_CANCEL] = say_id,
    [VERB_LIST_JOBS] = say_list_jobs,
    [VERB_PURGE_TUBE] = say_purge,
    [VERB_CALL_CANCEL] = say_tag,
    [VERB_AUTH] = say_name,
};

/* Bodies follow these, and no others. */
static bool brings_body(enum verb verb)
{
    return verb == VERB_PUT || verb == VERB_PUT_MANY || verb == VERB_FINISH_AND_PUT ||
           verb == VERB_DONE || verb == VERB_FAIL || verb == VERB_CALL;
}

static void say_command(struct text *text)
{
    assert_true(command.verb < VERB_COUNT);
    assert_true(command.counted);
    assert_int_equal(command.wants_body, brings_body(command.verb));
    if (command.leased)
        say(text, "lease %" PRIu64 " ", command.token);
    say(text, "%s", bi_beanstalk_parse_verb_name(command.verb));
    if (arguments[command.verb] != NULL)
        arguments[command.verb](text);
}

/* What became of a line: the command, or UNKNOWN, BAD or SKIP, whether it was counted all the same,
 * and how large the body would be. */
static const char *tell(const char *line, size_t size)
{
    static struct text text;
    memset(&command, 0xa5, sizeof(command)); /* whatever is told must have been set */
    /* A copy that ends with the line: to read behind it is seen by the sanitizer. */
    char *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    memcpy(copy, line, size);
    enum parse parse = bi_beanstalk_parse(&command, copy, size);
    text.size = 0;
    if (parse == PARSE_OK) {
        say_command(&text);
    } else {
        say(&text, parse == PARSE_UNKNOWN ? "UNKNOWN" : parse == PARSE_BAD_FORMAT ? "BAD" : "SKIP");
        assert_true(parse != PARSE_UNKNOWN || command.verb == VERB_NONE);
        assert_true(parse != PARSE_BAD_OPTION || command.wants_body);
        if (command.counted)
            say(&text, " counted");
        if (command.wants_body)
            say(&text, " %u", command.body_size);
    }
    free(copy);
    return text.bytes;
}

struct example {
    const char *line;
    const char *told;
};

static void check(const struct example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *told = tell(examples[i].line, strlen(examples[i].line));
        if (strcmp(told, examples[i].told) != 0)
            fail_msg("\"%s\" is \"%s\", not \"%s\"", examples[i].line, told, examples[i].told);
    }
}

#define CHECK(examples) check(examples, COUNT_OF(examples))

/* ---- what old clients say ---- */

static void every_beanstalkd_verb_is_parsed(void **state)
{
    static const struct example examples[] = {
        {"put 0 0 1 5", "put 0 0 1000 5"},
        {"reserve", "reserve -1"},
        {"reserve-with-timeout 5", "reserve-with-timeout 5000"},
        {"reserve-job 7", "reserve-job 7"},
        {"delete 7", "delete 7"},
        {"release 7 3 2", "release 7 3 2000"},
        {"bury 7 3", "bury 7 3"},
        {"touch 7", "touch 7"},
        {"use a", "use a"},
        {"watch a", "watch a"},
        {"ignore a", "ignore a"},
        {"kick 3", "kick 3"},
        {"kick-job 7", "kick-job 7"},
        {"peek 7", "peek 7"},
        {"peek-ready", "peek-ready"},
        {"peek-delayed", "peek-delayed"},
        {"peek-buried", "peek-buried"},
        {"stats", "stats"},
        {"stats-job 7", "stats-job 7"},
        {"stats-tube a", "stats-tube a"},
        {"list-tubes", "list-tubes"},
        {"list-tube-used", "list-tube-used"},
        {"list-tubes-watched", "list-tubes-watched"},
        {"pause-tube a 5", "pause-tube a 5000"},
        {"quit", "quit"},
    };
    (void)state;
    CHECK(examples);
}

static void verb_is_found_by_its_prefix_as_in_beanstalkd(void **state)
{
    static const struct example examples[] = {
        {"quitxyz", "quit"},
        {"quit now", "quit"},
        {"pause-tubefoo 5", "pause-tube foo 5000"},
        {"pause-tube   foo   5", "pause-tube foo 5000"},
        {"reservex", "BAD"},
        {"reserve ", "BAD"},
        {"reserve 5", "BAD"},
        {"reserve-with-timeout", "BAD"},
        {"reserve-with-timeoutx 5", "BAD"},
        {"reserve-job", "BAD"},
        {"reserve-many", "BAD"},
        {"statsx", "BAD"},
        {"stats ", "BAD"},
        {"stats-job", "BAD"},
        {"stats-tube", "BAD"},
        {"list-tubesx", "BAD"},
        {"list-tubes-watchedx", "BAD"},
        {"list-tube-usedx", "BAD"},
        {"peek-readyx", "BAD"},
        {"peek-delayed 1", "BAD"},
        {"peek-buried ", "BAD"},
        {"pause-tube", "BAD"},
    };
    (void)state;
    CHECK(examples);
}

static void unknown_verb_is_rejected(void **state)
{
    static const struct example examples[] = {
        {"", "UNKNOWN"},
        {" ", "UNKNOWN"},
        {"put", "UNKNOWN"},
        {"PUT 0 0 1 5", "UNKNOWN"},
        {" put 0 0 1 5", "UNKNOWN"},
        {"put\t0 0 1 5", "UNKNOWN"},
        {"use", "UNKNOWN"},
        {"usex a", "UNKNOWN"},
        {"peek", "UNKNOWN"},
        {"peekx", "UNKNOWN"},
        {"kick", "UNKNOWN"},
        {"kickx", "UNKNOWN"},
        {"kick-job", "UNKNOWN"},
        {"delete", "UNKNOWN"},
        {"release", "UNKNOWN"},
        {"bury", "UNKNOWN"},
        {"touch", "UNKNOWN"},
        {"watch", "UNKNOWN"},
        {"ignore", "UNKNOWN"},
        {"list-tube", "UNKNOWN"},
        {"pause", "UNKNOWN"},
        {"qui", "UNKNOWN"},
        {"put-many", "UNKNOWN"},
        {"lease", "UNKNOWN"},
        {"done", "UNKNOWN"},
        {"fail", "UNKNOWN"},
        {"result", "UNKNOWN"},
        {"update", "UNKNOWN"},
        {"cancel", "UNKNOWN"},
        {"list-jobs", "UNKNOWN"},
        {"purge-tube", "UNKNOWN"},
        {"schedule-set", "UNKNOWN"},
        {"schedule-next", "UNKNOWN"},
        {"call", "UNKNOWN"},
        {"call-cancel", "UNKNOWN"},
        {"auth", "UNKNOWN"},
        {"authx", "UNKNOWN"},
        {"\xff\xfe", "UNKNOWN"},
    };
    (void)state;
    CHECK(examples);
}

static void nul_in_a_line_is_a_bad_format(void **state)
{
    static const struct {
        const char *line;
        size_t size;
    } lines[] = {
        {"\0", 1}, {"nonsense\0", 9}, {"put 0 0 1 5\0", 12}, {"use a\0b", 7}, {"\0quit", 5}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        assert_string_equal(tell(lines[i].line, lines[i].size), "BAD");
}

static void numbers_may_have_only_leading_spaces(void **state)
{
    static const struct example examples[] = {
        {"delete    7", "delete 7"},
        {"delete 007", "delete 7"},
        {"delete 18446744073709551615", "delete 18446744073709551615"},
        {"delete 18446744073709551616", "BAD"},
        {"delete 99999999999999999999999999", "BAD"},
        {"delete 7 ", "BAD"},
        {"delete 7x", "BAD"},
        {"delete 7 8", "BAD"},
        {"delete \t7", "BAD"},
        {"delete -7", "BAD"},
        {"delete +7", "BAD"},
        {"delete 0x7", "BAD"},
        {"delete ", "BAD"},
        {"delete x", "BAD"},
        {"bury 7", "BAD"},
        {"bury 7 4294967295", "bury 7 4294967295"},
        {"bury 7 4294967296", "BAD"},
        {"bury 7 1 1", "BAD"},
        {"release 7 1", "BAD"},
        {"release 7 4294967296 0", "BAD"},
        {"release 7 4294967295 4294967295", "release 7 4294967295 4294967295000"},
        {"release 7 1 4294967296", "BAD"},
        {"release 7 1 0 ", "BAD"},
        {"release  7  1  0", "release 7 1 0"},
    };
    (void)state;
    CHECK(examples);
}

static void put_is_checked_in_the_order_of_beanstalkd(void **state)
{
    static const struct example examples[] = {
        {"put   1   2   3   4", "put 1 2000 3000 4"},
        {"put 4294967295 4294967295 4294967295 4294967295",
         "put 4294967295 4294967295000 4294967295000 4294967295"},
        {"put 0 0 0 0", "put 0 0 1000 0"}, /* a ttr of 0 is one second */
        {"put 4294967296 0 1 5", "BAD"},   /* a number that is none: not even counted */
        {"put 0 4294967296 1 5", "BAD"},
        {"put 0 0 4294967296 5", "BAD"},
        {"put 0 0 1 4294967296", "BAD"},
        {"put 0 0 1", "BAD"},
        {"put ", "BAD"},
        {"put -1 0 1 5", "BAD"},
        {"put 0 0 1 -5", "BAD"},
        {"put 0 0 1 5 ", "BAD counted 5"}, /* garbage: the size is known, for JOB_TOO_BIG */
        {"put 0 0 1 5x", "BAD counted 5"},
        {"put 0 0 1 5 6", "BAD counted 5"},
        {"put 0 0 1 4294967295 x", "BAD counted 4294967295"},
        {"put 0 0 1 5=x", "BAD counted 5"}, /* no space: garbage */
        {"put 0 0 1 5 key", "BAD counted 5"},
        {"put 0 0 1 5\tkey=a", "BAD counted 5"},
    };
    (void)state;
    CHECK(examples);
}

static void kick_parses_its_number_like_strtoul(void **state)
{
    static const struct example examples[] = {
        {"kick 0", "kick 0"},
        {"kick -1", "kick 4294967295"},
        {"kick -4294967295", "kick 1"},
        {"kick +3", "kick 3"},
        {"kick \t\n\v\f\r 3", "kick 3"},
        {"kick 3abc", "kick 3"},
        {"kick 3 x", "kick 3"},
        {"kick 4294967296", "kick 0"},
        {"kick 4294967299", "kick 3"},
        {"kick 18446744073709551615", "kick 4294967295"},
        {"kick 18446744073709551616", "BAD"},
        {"kick -18446744073709551615", "kick 1"},
        {"kick ", "BAD"},
        {"kick abc", "BAD"},
        {"kick +-3", "BAD"},
        {"kick - 3", "BAD"},
    };
    (void)state;
    CHECK(examples);
}

static void text_after_a_timeout_is_ignored(void **state)
{
    static const struct example examples[] = {
        {"reserve-with-timeout 0", "reserve-with-timeout 0"},
        {"reserve-with-timeout   5", "reserve-with-timeout 5000"},
        {"reserve-with-timeout 5 ", "reserve-with-timeout 5000"},
        {"reserve-with-timeout 5x", "reserve-with-timeout 5000"},
        {"reserve-with-timeout 5 6", "reserve-with-timeout 5000"},
        {"reserve-with-timeout 250ms", "reserve-with-timeout 250"},
        {"reserve-with-timeout 0.5", "reserve-with-timeout 500"},
        {"reserve-with-timeout 2147483647", "reserve-with-timeout 2147483647000"},
        {"reserve-with-timeout 2147483648", "BAD"},
        {"reserve-with-timeout 4294967296", "BAD"},
        {"reserve-with-timeout -1", "BAD"},
        {"reserve-with-timeout ", "BAD"},
        {"reserve-with-timeout x", "BAD"},
    };
    (void)state;
    CHECK(examples);
}

/* ---- names ---- */

static void tube_names_are_those_of_beanstalkd(void **state)
{
    static const struct example examples[] = {
        {"use Az09-+/;.$_()", "use Az09-+/;.$_()"},
        {"use ", "BAD"},
        {"use  foo", "BAD"},
        {"use foo ", "BAD"},
        {"use foo bar", "BAD"},
        {"use -foo", "BAD"},
        {"use f\xc3\xb6o", "BAD"},
        {"use a\tb", "BAD"},
        {"use a,b", "BAD"},
        {"watch *", "BAD"},
        {"ignore  a", "BAD"},
        {"stats-tube  a", "BAD"},
        {"stats-tube a ", "BAD"},
        {"pause-tube a", "BAD"},
        {"pause-tube a b", "BAD"},
        {"pause-tube a 5 ", "BAD"},
        {"pause-tube a 4294967296", "BAD"},
        {"pause-tube  5", "BAD"}, /* 5 is the name */
        {"pause-tube * 5", "BAD"},
        {"pause-tube -a 5", "BAD counted"}, /* beanstalkd counts it before it looks at the name */
    };
    (void)state;
    CHECK(examples);
}

static void every_byte_of_a_name_is_checked(void **state)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "-+/;.$_()";
    (void)state;
    for (int c = 0; c < 256; c++) {
        char name[2] = {'a', (char)c};
        bool good = c != 0 && strchr(allowed, c) != NULL;
        assert_int_equal(bi_beanstalk_field_is_name(name, 2), good);
        assert_int_equal(bi_beanstalk_field_is_name(name + 1, 1), good && c != '-');
    }
}

static void a_name_has_at_most_200_bytes(void **state)
{
    char line[300];
    (void)state;
    memset(line, 'n', sizeof(line));
    assert_true(bi_beanstalk_field_is_name(line, 200));
    assert_false(bi_beanstalk_field_is_name(line, 201));
    assert_false(bi_beanstalk_field_is_name(line, 0));
    memcpy(line, "use ", 4);
    assert_int_equal(strlen(tell(line, 204)), 204);
    assert_string_equal(tell(line, 205), "BAD");
    memset(line, 'n', sizeof(line));
    memcpy(line, "pause-tube ", 11);
    memcpy(line + 11 + 201, " 5", 2);
    assert_string_equal(tell(line, 11 + 201 + 2), "BAD counted");
}

/* ---- durations ---- */

static const struct {
    const char *text;
    int64_t ms; /* -1: it is none */
} durations[] = {
    {"0", 0},
    {"1", 1000},
    {"0001", 1000},
    {"1.5", 1500},
    {"1.25", 1250},
    {"1.125", 1125},
    {"0.001", 1},
    {"0.0", 0},
    {"250ms", 250},
    {"0ms", 0},
    {"1.5ms", 2}, /* never early: what is smaller than a millisecond counts as one */
    {"0.001ms", 1},
    {"2s", 2000},
    {"1.5s", 1500},
    {"5m", 300000},
    {"0.5m", 30000},
    {"2h", 7200000},
    {"1d", 86400000},
    {"0.001d", 86400},
    {"4294967295", INT64_C(4294967295000)},
    {"4294967295.999", BIDE_TIME_MAX_MS},
    {"4294967295ms", INT64_C(4294967295)},
    {"71582788m", INT64_C(4294967280000)},
    {"71582789m", BIDE_TIME_MAX_MS},
    {"4294967295d", BIDE_TIME_MAX_MS},
    {"4294967296", -1},
    {"4294967296ms", -1},
    {"18446744073709551616", -1},
    {"1.", -1},
    {".5", -1},
    {"1.2345", -1},
    {"1.0000", -1},
    {"1.00000000000000000000000000", -1},
    {"1.-5", -1},
    {"1..5", -1},
    {"-1", -1},
    {"+1", -1},
    {"1x", -1},
    {"1M", -1},
    {"1S", -1},
    {"1sec", -1},
    {"1mss", -1},
    {"1e3", -1},
    {"0x10", -1},
    {"1,5", -1},
    {"ms", -1},
    {"s", -1},
};

/* Where a duration may stand: the line around it, and where it goes. */
static const struct place {
    const char *before, *after;
    int64_t *value;
    int64_t zero; /* what 0 becomes */
    bool refuses_zero;
} places[] = {
    {"put 0 ", " 1 5", &command.put.delay_ms, 0, false},
    {"put 0 0 ", " 5", &command.put.ttr_ms, 1000, false},
    {"put 0 0 1 5 expires=", "", &command.expires_ms, 0, true},
    {"put 0 0 1 5 retain=", " key=a", &command.put.retain_ms, 0, false},
    {"release 7 1 ", "", &command.delay_ms, 0, false},
    {"lease 9 release 7 1 ", "", &command.delay_ms, 0, false},
    {"pause-tube a ", "", &command.delay_ms, 0, false},
    {"reserve-many 1 ", "", &command.timeout_ms, 0, false},
    {"result 7 ", "", &command.timeout_ms, 0, false},
    {"done 7 5 retain=", "", &command.retain_ms, 0, false},
    {"fail 7 5 retry=", "", &command.delay_ms, 0, false},
    {"update 7 delay=", " pri=1", &command.update.delay_ms, 0, false},
    {"update 7 ttr=", "", &command.update.ttr_ms, 1000, false},
    {"list-jobs a any 1 min-age=", "", &command.filter.min_age_ms, 0, false},
    {"list-jobs a any 1 max-age=", "", &command.filter.max_age_ms, 0, false},
};

static void durations_are_parsed_alike_in_all_commands(void **state)
{
    char line[200];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        for (size_t j = 0; j < COUNT_OF(durations); j++) {
            const struct place *place = &places[i];
            int64_t ms = durations[j].ms == 0 ? place->zero : durations[j].ms;
            snprintf(line, sizeof(line), "%s%s%s", place->before, durations[j].text, place->after);
            const char *told = tell(line, strlen(line));
            bool refused = strncmp(told, "BAD", 3) == 0 || strncmp(told, "SKIP", 4) == 0;
            bool wrong = durations[j].ms < 0 || (durations[j].ms == 0 && place->refuses_zero);
            if (refused != wrong || (!wrong && *place->value != ms))
                fail_msg("\"%s\" is \"%s\"", line, told);
        }
    }
}

/* ---- options ---- */

static void every_put_option_is_parsed(void **state)
{
    static const struct example examples[] = {
        {"put 0 0 1 5 key=a", "put 0 0 1000 5 key=a"},
        {"put 0 0 1 5   key=a   conflict=replace  ", "SKIP counted 5"},
        {"put 0 0 1 5  key=a  conflict=replace", "put 0 0 1000 5 key=a replace"},
        {"put 0 0 1 5 conflict=reject key=a", "put 0 0 1000 5 key=a"},
        {"put 0 0 1 5 conflict=replace conflict=reject", "put 0 0 1000 5"},
        {"put 0 0 1 5 key=a hold=retained", "put 0 0 1000 5 key=a retained"},
        {"put 0 0 1 5 retries=0", "put 0 0 1000 5 retries=0"},
        {"put 0 0 1 5 retries=2147483647", "put 0 0 1000 5 retries=2147483647"},
        {"put 0 0 1 5 backoff=2", "put 0 0 1000 5 backoff=2000,0"},
        {"put 0 0 1 5 backoff=250ms,5m", "put 0 0 1000 5 backoff=250,300000"},
        {"put 0 0 1 5 backoff=1.5,2.5", "put 0 0 1000 5 backoff=1500,2500"},
        {"put 0 0 1 5 expires=1h", "put 0 0 1000 5 expires=3600000"},
        {"put 0 0 1 5 retain=1d", "put 0 0 1000 5 retain=86400000"},
        {"put 0 0 1 5 at=1700000000000", "put 0 0 1000 5 at=1700000000000"},
        {"put 0 0 1 5 at=7258118400000", "put 0 0 1000 5 at=7258118400000"},
        {"put 9 0 1 5 key=%41=%3d%20 retries=3 backoff=1,2 expires=3 retain=4 at=5 hold=retained",
         "put 9 0 1000 5 key=A==<20> retained retries=3 backoff=1000,2000 expires=3000 retain=4000 "
         "at=5"},
    };
    (void)state;
    CHECK(examples);
}

static void invalid_put_option_is_rejected_and_its_body_skipped(void **state)
{
    static const char *const options[] = {
        "key=",
        "key=%",
        "key=%4",
        "key=%4g",
        "key=a%",
        "key=%%41",
        "conflict=",
        "conflict=Replace",
        "conflict=rejectx",
        "hold=",
        "hold=retain",
        "retries=",
        "retries=-1",
        "retries=2147483648",
        "retries=1x",
        "retries= 1",
        "backoff=",
        "backoff=,",
        "backoff=1,",
        "backoff=,1",
        "backoff=1,2,3",
        "backoff=1;2",
        "backoff=1s2",
        "expires=0",
        "expires=",
        "retain=",
        "at=",
        "at=-1",
        "at=7258118400001",
        "at=1s",
        "nothing=1",
        "=1",
        "=",
        "Key=a",
        "keyy=a",
        "ke=a",
        "key=a garbage",
        "key=a ",
        "pri=1",
        "delay=1",
        "tube=a",
        "retry=1",
        "key=a key",
        "cursor=a",
    };
    char line[200];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        snprintf(line, sizeof(line), "put 0 0 1 5 %s", options[i]);
        const char *told = tell(line, strlen(line));
        if (strcmp(told, "SKIP counted 5") != 0)
            fail_msg("\"%s\" is \"%s\"", line, told);
    }
    assert_string_equal(tell("put 0 1 1 5 at=5", 16), "SKIP counted 5");
    assert_string_equal(tell("put 0 0 1 4294967295 x=", 23), "SKIP counted 4294967295");
}

static void a_key_is_decoded_and_has_1_to_200_bytes(void **state)
{
    char line[800] = "put 0 0 1 5 key=";
    size_t head = strlen(line);
    (void)state;
    memset(line + head, 'k', 201);
    assert_string_equal(tell(line, head + 201), "SKIP counted 5");
    tell(line, head + 200);
    assert_int_equal(command.put.key.size, 200);
    for (size_t i = 0; i < 201; i++)
        memcpy(line + head + 3 * i, "%00", 3);
    assert_string_equal(tell(line, head + 603), "SKIP counted 5");
    tell(line, head + 600);
    assert_int_equal(command.put.key.size, 200);
    assert_memory_equal(command.put.key.data, (const char[200]){0}, 200);
    for (unsigned c = 0; c < 256; c++) {
        snprintf(line + head, 4, c % 2 == 0 ? "%%%02x" : "%%%02X", c);
        tell(line, head + 3);
        assert_int_equal(command.put.key.size, 1);
        assert_int_equal(*(const unsigned char *)command.put.key.data, c);
    }
}

/* ---- what bide adds ---- */

static void every_bide_verb_is_parsed(void **state)
{
    static const struct example examples[] = {
        {"put-many 2 100", "put-many 2 100"},
        {"put-many 1000 4294967295", "put-many 1000 4294967295"},
        {"finish-and-put 7 2 100",
         "finish-and-put 7 2 100 delete result=0 retain=-1 pri=-1 delay=0 at=0 reason="},
        {"finish-and-put 7 1000 0 end=delete",
         "finish-and-put 7 1000 0 delete result=0 retain=-1 pri=-1 delay=0 at=0 reason="},
        {"finish-and-put 7 1 9 end=done result=5 retain=1m",
         "finish-and-put 7 1 9 done result=5 retain=60000 pri=-1 delay=0 at=0 reason="},
        {"finish-and-put 7 1 9 pri=0 delay=1.5 end=release",
         "finish-and-put 7 1 9 release result=0 retain=-1 pri=0 delay=1500 at=0 reason="},
        {"finish-and-put 7 1 9 end=release at=5",
         "finish-and-put 7 1 9 release result=0 retain=-1 pri=-1 delay=0 at=5 reason="},
        {"finish-and-put 7 1 9 end=bury pri=4294967295 reason=no%20use",
         "finish-and-put 7 1 9 bury result=0 retain=-1 pri=4294967295 delay=0 at=0 "
         "reason=no<20>use"},
        {"reserve-many 10 2.5", "reserve-many 10 2500"},
        {"reserve-many 1000 0", "reserve-many 1000 0"},
        {"done 7 5", "done 7 5 retain=-1"},
        {"done 7 0 retain=5m", "done 7 0 retain=300000"},
        {"fail 7 5", "fail 7 5 retry=-1"},
        {"fail 7 0 retry=0", "fail 7 0 retry=0"},
        {"result 7", "result 7"},
        {"result 7 0", "result 7 0"},
        {"result 7 1.5", "result 7 1500"},
        {"update 7 pri=1", "update 7 pri=1 delay=-1 at=-1 ttr=-1 tube="},
        {"update 7 tube=b ttr=5 delay=1 pri=4294967295",
         "update 7 pri=4294967295 delay=1000 at=-1 ttr=5000 tube=b"},
        {"update 7 at=5", "update 7 pri=-1 delay=-1 at=5 ttr=-1 tube="},
        {"cancel 7", "cancel 7"},
        {"list-jobs a ready 5", "list-jobs tube=a ready 5 key= text= age=0,0 cursor="},
        {"list-jobs * any 1000", "list-jobs tube= gone 1000 key= text= age=0,0 cursor="},
        {"list-jobs * done 1 cursor=%61b key=k%20 text=t%00 min-age=1 max-age=2m",
         "list-jobs tube= done 1 key=k<20> text=t<00> age=1000,120000 cursor=ab"},
        {"purge-tube a buried", "purge-tube a buried"},
        {"purge-tube a done", "purge-tube a done"},
        {"call 5 put 10", "call 5 put 10"},
        {"call 18446744073709551615 x 4294967295", "call 18446744073709551615 x 4294967295"},
        {"call-cancel 5", "call-cancel 5"},
        {"auth secret with spaces ", "auth secret<20>with<20>spaces<20>"},
        {"auth ", "auth "},
    };
    (void)state;
    CHECK(examples);
}

static void invalid_arguments_of_bide_verbs_are_rejected(void **state)
{
    static const struct example examples[] = {
        {"put-many 0 100", "SKIP counted 100"},
        {"put-many 1001 100", "SKIP counted 100"},
        {"put-many 18446744073709551615 5", "SKIP counted 5"},
        {"put-many 1", "BAD"},
        {"put-many 1 100 ", "BAD"},
        {"put-many 1 4294967296", "BAD"},
        {"finish-and-put 7 1", "BAD"},
        {"finish-and-put 7 x 5", "BAD"},
        {"finish-and-put 7 1 4294967296", "BAD"},
        {"finish-and-put 7 1 5 ", "BAD counted 5"},
        {"finish-and-put 7 0 5", "SKIP counted 5"},
        {"finish-and-put 7 1001 5", "SKIP counted 5"},
        {"finish-and-put 7 1 5 end=kill", "SKIP counted 5"},
        {"finish-and-put 7 1 5 tube=a", "SKIP counted 5"},
        {"finish-and-put 7 1 5 result=1", "SKIP counted 5"},
        {"finish-and-put 7 1 5 retain=1", "SKIP counted 5"},
        {"finish-and-put 7 1 5 end=done result=4294967296", "SKIP counted 5"},
        {"finish-and-put 7 1 5 delay=1", "SKIP counted 5"},
        {"finish-and-put 7 1 5 end=bury at=5", "SKIP counted 5"},
        {"finish-and-put 7 1 5 end=release delay=1 at=5", "SKIP counted 5"},
        {"finish-and-put 7 1 5 end=done pri=1", "SKIP counted 5"},
        {"finish-and-put 7 1 5 end=release reason=a", "SKIP counted 5"},
        {"finish-and-put 7 1 5 end=bury reason=%zz", "SKIP counted 5"},
        {"reserve-many 0 1", "BAD"},
        {"reserve-many 1001 1", "BAD"},
        {"reserve-many 1", "BAD"},
        {"reserve-many 1 1 ", "BAD"},
        {"done 7", "BAD"},
        {"done 7 5 ", "BAD counted 5"},
        {"done 7 5 retry=1", "SKIP counted 5"},
        {"fail 7 5 x", "BAD counted 5"},
        {"fail 7 5 retain=1", "SKIP counted 5"},
        {"fail 7 4294967296", "BAD"},
        {"result ", "BAD"},
        {"result 7 ", "BAD"},
        {"result 7 x", "BAD"},
        {"result 7 1 ", "BAD"},
        {"update 7", "BAD"},
        {"update 7 ", "BAD"},
        {"update 7 pri", "BAD"},
        {"update 7pri=1", "BAD"},
        {"update 7 pri=4294967296", "BAD"},
        {"update 7 pri=-1", "BAD"},
        {"update 7 delay=1 at=5", "BAD"},
        {"update 7 tube=", "BAD"},
        {"update 7 tube=-a", "BAD"},
        {"update 7 key=a", "BAD"},
        {"update 7 pri=1 x", "BAD"},
        {"cancel 7 ", "BAD"},
        {"list-jobs a ready", "BAD"},
        {"list-jobs a gone 5", "BAD"},
        {"list-jobs a Ready 5", "BAD"},
        {"list-jobs a ready 0", "BAD"},
        {"list-jobs a ready 1001", "BAD"},
        {"list-jobs -a ready 5", "BAD"},
        {"list-jobs ** ready 5", "BAD"},
        {"list-jobs a ready 5 ", "BAD"},
        {"list-jobs a ready 5 cursor=", "BAD"},
        {"list-jobs a ready 5 cursor=a%00", "BAD"},
        {"list-jobs a ready 5 cursor=%zz", "BAD"},
        {"list-jobs a ready 5 pri=1", "BAD"},
        {"schedule-set -1", "BAD"},
        {"schedule-set 5 x=1", "BAD"},
        {"schedule-get a b", "BAD"},
        {"schedule-list 0", "BAD"},
        {"schedule-list 1001", "BAD"},
        {"schedule-list 5 pri=1", "BAD"},
        {"schedule-next a", "BAD"},
        {"schedule-next a 1001", "BAD"},
        {"purge-tube a reserved", "BAD"},
        {"purge-tube a any", "BAD"},
        {"purge-tube * ready", "BAD"},
        {"purge-tube a", "BAD"},
        {"purge-tube a ready ", "BAD"},
        {"call 5 put", "BAD"},
        {"call 5 put 10 ", "BAD"},
        {"call x put 10", "BAD"},
        {"call 5 put 4294967296", "BAD"},
        {"call-cancel ", "BAD"},
        {"call-cancel 5 6", "BAD"},
    };
    (void)state;
    CHECK(examples);
}

static void a_cursor_has_at_most_63_bytes(void **state)
{
    char line[200] = "list-jobs a any 1 cursor=";
    size_t head = strlen(line);
    (void)state;
    memset(line + head, 'c', 64);
    assert_string_equal(tell(line, head + 64), "BAD");
    tell(line, head + 63);
    assert_int_equal(strlen(command.cursor), 63);
}

static void lease_prefix_is_accepted_by_holder_commands(void **state)
{
    static const struct example examples[] = {
        {"lease 9 delete 7", "lease 9 delete 7"},
        {"lease 9 release 7 1 2", "lease 9 release 7 1 2000"},
        {"lease 9 bury 7 1", "lease 9 bury 7 1"},
        {"lease 9 touch 7", "lease 9 touch 7"},
        {"lease 9 done 7 5 retain=1", "lease 9 done 7 5 retain=1000"},
        {"lease 9 fail 7 5 retry=1", "lease 9 fail 7 5 retry=1000"},
        {"lease 9 finish-and-put 7 1 5",
         "lease 9 finish-and-put 7 1 5 delete result=0 retain=-1 pri=-1 delay=0 at=0 reason="},
        {"lease  9   delete   7", "lease 9 delete 7"},
        {"lease 18446744073709551615 delete 7", "lease 18446744073709551615 delete 7"},
        {"lease 0 delete 7", "BAD"},
        {"lease 9", "BAD"},
        {"lease 9 ", "BAD"},
        {"lease 9delete 7", "BAD"},
        {"lease delete 7", "BAD"},
        {"lease 9 delete", "BAD"},
        {"lease 9 delete 7 ", "BAD"},
        {"lease 9 put 0 0 1 5", "BAD"},
        {"lease 9 reserve", "BAD"},
        {"lease 9 quit", "BAD"},
        {"lease 9 kick-job 7", "BAD"},
        {"lease 9 cancel 7", "BAD"},
        {"lease 9 lease 9 delete 7", "BAD"},
        {"lease 9 nonsense", "BAD"},
        {"lease 9 done 7 5 x", "BAD counted 5"},
        {"lease 9 done 7 5 x=", "SKIP counted 5"},
    };
    (void)state;
    CHECK(examples);
}

/* ---- how long a line may be ---- */

/* The line with spaces behind its first, so that it has size bytes. */
static const char *stretched(const char *line, size_t size)
{
    static char longer[2000];
    const char *space = strchr(line, ' ');
    size_t before = (size_t)(space - line);
    size_t after = strlen(space);
    memset(longer, ' ', sizeof(longer));
    memcpy(longer, line, before);
    memcpy(longer + size - after, space, after);
    return longer;
}

static void beanstalkd_command_line_has_at_most_224_bytes(void **state)
{
    static const char *const lines[] = {
        "put 0 0 1 5",   "reserve-with-timeout 5",
        "reserve-job 7", "delete 7",
        "release 7 1 2", "bury 7 1",
        "touch 7",       "kick 3",
        "kick-job 7",    "peek 7",
        "stats-job 7",   "pause-tube a 5",
        "quit x",
    };
    char told[200];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        snprintf(told, sizeof(told), "%s", tell(lines[i], strlen(lines[i])));
        assert_string_equal(tell(stretched(lines[i], 222), 222), told);
        assert_string_equal(tell(stretched(lines[i], 223), 223), "BAD");
        assert_string_equal(tell(stretched(lines[i], 1022), 1022), "BAD");
    }
}

static void bide_command_line_may_have_1024_bytes(void **state)
{
    static const char *const lines[] = {
        "put 0 0 1 5 key=a",  "put-many 1 5",
        "reserve-many 1 1",   "lease 9 delete 7",
        "done 7 5",           "fail 7 5",
        "result 7",           "update 7 pri=1",
        "cancel 7",           "list-jobs a any 1",
        "purge-tube a ready", "call 5 put 10",
        "call-cancel 5",      "finish-and-put 7 1 5",
    };
    char told[200];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        snprintf(told, sizeof(told), "%s", tell(lines[i], strlen(lines[i])));
        assert_string_equal(tell(stretched(lines[i], 1022), 1022), told);
        assert_int_equal(bi_beanstalk_parse_line_max(stretched(lines[i], 1022), 224),
                         LINE_MAX_EXTENDED);
    }
}

static void line_limit_depends_on_the_verb(void **state)
{
    static const struct {
        const char *line;
        size_t max;
    } lines[] = {
        {"put ", LINE_MAX_EXTENDED},         {"put 0 0 1 5 key=", LINE_MAX_EXTENDED},
        {"put-many 1", LINE_MAX_EXTENDED},   {"lease 9 delete 7", LINE_MAX_EXTENDED},
        {"auth x", LINE_MAX_EXTENDED},       {"call 5", LINE_MAX_EXTENDED},
        {"put", LINE_MAX_CLASSIC},           {"putx ", LINE_MAX_CLASSIC},
        {"delete 7", LINE_MAX_CLASSIC},      {"use a", LINE_MAX_CLASSIC},
        {"quit", LINE_MAX_CLASSIC},          {"nonsense", LINE_MAX_CLASSIC},
        {"reserve", LINE_MAX_CLASSIC},       {"reserve-many 1 1", LINE_MAX_EXTENDED},
        {"reserve-manyx", LINE_MAX_CLASSIC}, {"", LINE_MAX_CLASSIC},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        assert_int_equal(bi_beanstalk_parse_line_max(lines[i].line, strlen(lines[i].line)),
                         lines[i].max);
}

/* ---- the jobs of put-many ---- */

static void an_item_is_a_put_without_its_verb(void **state)
{
    static const struct {
        const char *line;
        enum parse parse;
        uint32_t size;
    } items[] = {
        {"0 0 1 5", PARSE_OK, 5},
        {"  0  0  1  5", PARSE_OK, 5},
        {"1 250ms 5m 0 key=a retries=3", PARSE_OK, 0},
        {"0 0 1 5 tube=a", PARSE_OK, 5},
        {"0 0 1 5 tube=-a", PARSE_BAD_OPTION, 5},
        {"0 0 1 5 tube=", PARSE_BAD_OPTION, 5},
        {"0 0 1 5 end=bury", PARSE_BAD_OPTION, 5},
        {"0 0 1 5 key=", PARSE_BAD_OPTION, 5},
        {"0 0 1 5 x=1", PARSE_BAD_OPTION, 5},
        {"0 5 1 5 at=9", PARSE_BAD_OPTION, 5},
        {"0 0 1 5 ", PARSE_BAD_FORMAT, 5},
        {"0 0 1 5 x", PARSE_BAD_FORMAT, 5},
        {"0 0 1 4294967296", PARSE_BAD_FORMAT, UINT32_MAX},
        {"0 0 1", PARSE_BAD_FORMAT, UINT32_MAX},
        {"put 0 0 1 5", PARSE_BAD_FORMAT, UINT32_MAX},
        {"", PARSE_BAD_FORMAT, UINT32_MAX},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        memset(&command, 0xa5, sizeof(command));
        assert_int_equal(bi_beanstalk_parse_item(&command, items[i].line, strlen(items[i].line)),
                         items[i].parse);
        assert_int_equal(command.body_size, items[i].size);
        assert_int_equal(command.verb, VERB_PUT);
    }
    static const char other[] = "0 0 1 5 conflict=skip tube=other";
    assert_int_equal(bi_beanstalk_parse_item(&command, other, strlen(other)), PARSE_OK);
    assert_int_equal(command.put.conflict, BIDE_SKIP);
    assert_memory_equal(command.name.data, "other", command.name.size);
    assert_int_equal(bi_beanstalk_parse_item(&command, "1 250ms 5m 0 key=%20", 20), PARSE_OK);
    assert_int_equal(command.name.size, 0);
    assert_int_equal(command.put.priority, 1);
    assert_int_equal(command.put.delay_ms, 250);
    assert_int_equal(command.put.ttr_ms, 300000);
    assert_int_equal(command.put.key.size, 1);
    assert_memory_equal(command.put.key.data, " ", 1);
    assert_int_equal(bi_beanstalk_parse_item(&command, "0 0 1 5\0", 8), PARSE_BAD_FORMAT);
}

static enum parse parse_line(const char *line)
{
    return bi_beanstalk_parse(&command, line, strlen(line));
}

static void topic_set_changes_only_what_its_options_name(void **state)
{
    (void)state;
    assert_int_equal(parse_line("topic-set a ttr=250ms retries=unlimited backoff=1,2 burst=none"),
                     PARSE_OK);
    assert_int_equal(command.policy.ttr_ms, 250);
    assert_int_equal(command.policy.max_retries, BIDE_UNLIMITED);
    assert_int_equal(command.policy.backoff_base_ms, 1000);
    assert_int_equal(command.policy.backoff_max_ms, 2000);
    assert_int_equal(command.policy.rate_burst, BIDE_NO_DEFAULT);
    assert_int_equal(command.policy.retain_ms, BIDE_KEEP);
    assert_int_equal(command.policy.concurrency, BIDE_KEEP);

    assert_int_equal(
        parse_line("topic-set a backoff=none retries=none ttr=none max-jobs=4294967295 "
                   "concurrency=1 rate=2 period=1m retain=1d expires=3"),
        PARSE_OK);
    assert_int_equal(command.policy.backoff_base_ms, BIDE_NO_DEFAULT);
    assert_int_equal(command.policy.backoff_max_ms, BIDE_NO_DEFAULT);
    assert_int_equal(command.policy.max_retries, BIDE_NO_DEFAULT);
    assert_int_equal(command.policy.ttr_ms, BIDE_NO_DEFAULT);
    assert_int_equal(command.policy.max_jobs, UINT32_MAX);
    assert_int_equal(command.policy.concurrency, 1);
    assert_int_equal(command.policy.rate, 2);
    assert_int_equal(command.policy.rate_period_ms, 60000);
    assert_int_equal(command.policy.retain_ms, 86400000);
    assert_int_equal(command.policy.expires_in_ms, 3000);

    static const char *const bad[] = {"topic-set",
                                      "topic-set a",
                                      "topic-set a b",
                                      "topic-set a rate=",
                                      "topic-set a rate=-1",
                                      "topic-set a rate=unlimited",
                                      "topic-set a concurrency=4294967296",
                                      "topic-set a key=none",
                                      "topic-set * rate=1",
                                      "topic-get a b",
                                      "topic-get -a",
                                      "done 1 1 retain=none"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_not_equal(parse_line(bad[i]), PARSE_OK);
}

static void a_put_can_exclude_the_defaults_of_its_tube(void **state)
{
    (void)state;
    assert_int_equal(parse_line("put 1 2 3 4 retries=none backoff=none retain=none expires=none"),
                     PARSE_OK);
    assert_int_equal(command.put.max_retries, BIDE_NO_DEFAULT);
    assert_int_equal(command.put.backoff_base_ms, BIDE_NO_DEFAULT);
    assert_int_equal(command.put.backoff_max_ms, BIDE_NO_DEFAULT);
    assert_int_equal(command.put.retain_ms, BIDE_NO_DEFAULT);
    assert_int_equal(command.expires_ms, BIDE_NO_DEFAULT);
    assert_int_equal(parse_line("put 1 2 3 4 at=none"), PARSE_BAD_OPTION);
    assert_int_equal(parse_line("put 1 2 3 4 retries=unlimited"), PARSE_BAD_OPTION);
}

static void every_verb_has_its_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VERB_COUNT; i++) {
        char line[64];
        snprintf(line, sizeof(line), "%s 1 1 1 1", bi_beanstalk_parse_verb_name((enum verb)i));
        bi_beanstalk_parse(&command, line, strlen(line));
        assert_int_equal(command.verb, i);
    }
    assert_string_equal(bi_beanstalk_parse_verb_name(VERB_NONE), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_beanstalkd_verb_is_parsed),
        cmocka_unit_test(verb_is_found_by_its_prefix_as_in_beanstalkd),
        cmocka_unit_test(unknown_verb_is_rejected),
        cmocka_unit_test(nul_in_a_line_is_a_bad_format),
        cmocka_unit_test(numbers_may_have_only_leading_spaces),
        cmocka_unit_test(put_is_checked_in_the_order_of_beanstalkd),
        cmocka_unit_test(kick_parses_its_number_like_strtoul),
        cmocka_unit_test(text_after_a_timeout_is_ignored),
        cmocka_unit_test(tube_names_are_those_of_beanstalkd),
        cmocka_unit_test(every_byte_of_a_name_is_checked),
        cmocka_unit_test(a_name_has_at_most_200_bytes),
        cmocka_unit_test(durations_are_parsed_alike_in_all_commands),
        cmocka_unit_test(every_put_option_is_parsed),
        cmocka_unit_test(invalid_put_option_is_rejected_and_its_body_skipped),
        cmocka_unit_test(a_key_is_decoded_and_has_1_to_200_bytes),
        cmocka_unit_test(every_bide_verb_is_parsed),
        cmocka_unit_test(invalid_arguments_of_bide_verbs_are_rejected),
        cmocka_unit_test(a_cursor_has_at_most_63_bytes),
        cmocka_unit_test(lease_prefix_is_accepted_by_holder_commands),
        cmocka_unit_test(beanstalkd_command_line_has_at_most_224_bytes),
        cmocka_unit_test(bide_command_line_may_have_1024_bytes),
        cmocka_unit_test(line_limit_depends_on_the_verb),
        cmocka_unit_test(an_item_is_a_put_without_its_verb),
        cmocka_unit_test(topic_set_changes_only_what_its_options_name),
        cmocka_unit_test(a_put_can_exclude_the_defaults_of_its_tube),
        cmocka_unit_test(every_verb_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
