/* SPDX-License-Identifier: MIT */
/* query.c - topics, stats, list, peek and job: what is there, shown without touching it. */
#include "cli_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Run once, and exactly that is on its standard output. */
#define PRINTS(run, wanted)             \
    do {                                \
        struct child *run_ = (run);     \
        OUTPUT_IS(run_->out, (wanted)); \
    } while (0)

/* A plain beanstalkd has no lists, and says so: true. */
static bool has_no_lists(void)
{
    if (!is_plain())
        return false;
    struct child *child = run_expect(1, "list", "email");
    HAS(child->err, "plain beanstalkd");
    SILENT(child->out);
    return true;
}

static void bury(uint64_t id)
{
    bide *queue = open_test_queue();
    bide_job job;
    OK(bide_reserve_job(queue, id, &job));
    OK(bide_bury(queue, job.id, job.token, BIDE_KEEP, NULL));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* Puts so many at once: into "NAME-0", "NAME-1", ... or all into one topic, with such bodies. */
static void put_numbers(const char *name, int count, bool apart)
{
    static char texts[3000][32];
    bide_put_item items[BIDE_BATCH_JOBS];
    bide *queue = open_test_queue();
    CHECK(count <= (int)COUNT(texts));
    for (int i = 0; i < count; i++) {
        bide_put_item *item = &items[i % BIDE_BATCH_JOBS];
        snprintf(texts[i], sizeof(texts[i]), "%s-%d", name, i);
        *item =
            (bide_put_item){.topic = slice_of(apart ? texts[i] : name), .body = slice_of(texts[i])};
        if ((i + 1) % BIDE_BATCH_JOBS == 0 || i + 1 == count)
            OK(bide_put_many(queue, items, (size_t)(i % BIDE_BATCH_JOBS) + 1, NULL));
    }
    OK(bide_close(queue));
}

/* ---- topics ---- */

static void topics_are_printed_one_per_line(void)
{
    put_job("email", "1");
    put_job("a+b/c;d.e$f_(g)", "2");
    put_job("42", "3");
    struct child *child = run_expect(0, "topics", "--names", "--sort", "name");
    HAS(child->out, "42\na+b/c;d.e$f_(g)\n");
    HAS(child->out, "email\n");
    SILENT(child->err);
    child = run_expect(0, "topics", "--names", "--sort", "name", "--reverse");
    HAS(child->out, "a+b/c;d.e$f_(g)\n42\n");
}

static void the_table_of_topics_counts_every_state(void)
{
    put_job("email", "1");
    put_job("email", "2");
    bury(put_job("email", "3"));
    struct child *child = run_expect(0, "topics");
    HAS(child->out, "TOPIC");
    const char *row = strstr(child->out.text, "\nemail ");
    CHECK(row != NULL);
    int ready = -1, delayed = -1, reserved = -1, buried = -1, done = -1, waiting = -1;
    EQ(sscanf(row, " email %d %d %d %d %d %d", &ready, &delayed, &reserved, &buried, &done,
              &waiting),
       6);
    EQ(ready, 2);
    EQ(delayed, 0);
    EQ(reserved, 0);
    EQ(buried, 1);
    EQ(done, 0);
    EQ(waiting, 0);
}

static void topics_in_json_have_all_statistics(void)
{
    put_job("email", "1");
    struct child *child = run_expect(0, "topics", "--json");
    json_t *all = json_of(child->out), *each;
    size_t index, found = 0;
    json_array_foreach(all, index, each)
    {
        if (strcmp(text_in(each, "name"), "email") != 0)
            continue;
        found++;
        EQ(number_in(json_object_get(each, "jobs"), "ready"), 1);
        EQ(number_in(json_object_get(each, "total"), "puts"), place_kind == AT_FILE ? 0 : 1);
        EQ(number_in(each, "waiting"), 0);
        CHECK(json_is_false(json_object_get(each, "paused")));
    }
    EQ(found, 1);
}

static void topics_of_many_pages_are_complete(void)
{
    put_numbers("topic", 1200, true);
    struct child *child = run_expect(0, "topics", "--names");
    EQ(count_of(&child->out, "topic-"), 1200);
    child = run_expect(0, "topics", "--sort", "ready");
    EQ(count_of(&child->out, "topic-"), 1200);
    EQ(count_of(&child->out, "TOPIC"), 1);
}

static void topics_are_sorted_by_the_given_column(void)
{
    put_job("one", "1");
    for (int i = 0; i < 3; i++)
        put_job("three", "3");
    put_job("two", "2");
    put_job("two", "2");
    struct child *child = run_expect(0, "topics", "--names", "--sort", "ready");
    HAS(child->out, "three\ntwo\none\n");
    child = run_expect(0, "topics", "--names", "--sort", "ready", "--reverse");
    HAS(child->out, "one\ntwo\nthree\n");
    child = run_expect(2, "topics", "--sort", "redy");
    HAS(child->err, "did you mean ready?");
}

static void on_a_terminal_topics_are_in_order_and_coloured(void)
{
    put_job("zebra", "1");
    bury(put_job("ant", "2"));
    set_env("TERM", "xterm");
    struct child *child = begin_on_terminal(80, 24, "topics", NULL);
    await_end(child, 0);
    const char *ant = strstr(child->out.text, "\nant "),
               *zebra = strstr(child->out.text, "\nzebra ");
    CHECK(ant != NULL && zebra != NULL && ant < zebra);
    HAS(child->out, "\x1b[31m1\x1b[0m");
}

/* ---- stats ---- */

static void stats_show_the_queue_or_one_topic(void)
{
    put_job("email", "1");
    put_job("other", "2");
    struct child *child = run_expect(0, "stats");
    HAS(child->out, "ready            2\n");
    HAS(child->out, "draining         no\n");
    child = run_expect(0, "stats", "email");
    HAS(child->out, "topic            email\n");
    HAS(child->out, "ready            1\n");
    HAS(child->out, "paused           -\n");
    json_t *stats = json_at(run_expect(0, "stats", "--json")->out, 0);
    EQ(number_in(json_object_get(stats, "jobs"), "ready"), 2);
    stats = json_at(run_expect(0, "stats", "email", "--json")->out, 0);
    TEXT(text_in(stats, "name"), strlen(text_in(stats, "name")), "email");
}

static void stats_of_an_unknown_topic_are_not_found(void)
{
    struct child *child = run_expect(3, "stats", "nothing");
    SILENT(child->out);
    HAS(child->err, "nothing");
}

/* ---- list ---- */

static void a_list_has_every_job_in_one_line(void)
{
    if (has_no_lists())
        return;
    put_job("email", "first");
    put_job("email", "two\nlines\tand \x1b[31mred");
    put_job("other", "second");
    struct child *child = run_expect(0, "list");
    EQ(LINES(child->out), 4);
    HAS(child->out, "two\\nlines\\tand \\x1b[31mred\n");
    child = run_expect(0, "list", "email");
    EQ(LINES(child->out), 3);
    LACKS(child->out, "second");
    SILENT(child->err);
}

/* The ids of a list without a table must rise. */
static void ids_rise(const struct output *output, int count)
{
    const char *at = output->text;
    unsigned long long last = 0;
    EQ(count_of(output, "\n"), count);
    for (int i = 0; i < count; i++) {
        char *end;
        unsigned long long id = strtoull(at, &end, 10);
        CHECK(id > last && *end == '\n');
        last = id;
        at = end + 1;
    }
}

/* Also of more jobs than one call can look at: scripts compare lists, and cut them. */
static void list_is_in_the_documented_order(void)
{
    enum { MORE = 9999 }; /* and two are more than one call looks at */
    static char lines[2 * MORE];
    if (is_plain())
        return; /* it has no lists */
    run_expect_input(0,
                     "{\"topic\":\"t\",\"body\":\"a\",\"priority\":9}\n"
                     "{\"topic\":\"t\",\"body\":\"b\",\"priority\":1}\n",
                     "put", "--jsonl", "--quiet");
    struct child *few = run_expect(0, "list", "t", "--ids");
    OUTPUT_IS(few->out, "1\n2\n");
    for (size_t i = 0; i < MORE; i++)
        memcpy(lines + 2 * i, "x\n", 2);
    run_expect_bytes(0, lines, sizeof(lines), "put", "t", "--lines", "--quiet");
    ids_rise(&run_expect(0, "list", "t", "--ids")->out, MORE + 2);
    struct child *whole = run_expect(0, "list", "t", "--json");
    json_t *jobs = json_of(whole->out);
    EQ(json_array_size(jobs), MORE + 2);
    for (size_t i = 1; i < json_array_size(jobs); i++)
        CHECK(number_in(json_array_get(jobs, i), "id") >
              number_in(json_array_get(jobs, i - 1), "id"));
    TEXT(text_in(json_array_get(jobs, 0), "body"), 1, "a");
    EQ(LINES(run_expect(0, "list", "t")->out), MORE + 3);
    /* A part, and the rest of it. */
    struct child *part = run_expect(0, "list", "t", "--ids", "--limit", "10");
    ids_rise(&part->out, 10);
    HAS(part->out, "\n10\n");
    HAS(part->err, "--cursor ia,");
    struct child *rest = run_expect(0, "list", "t", "--ids", "--cursor", "ia");
    ids_rise(&rest->out, MORE - 8);
    CHECK(strncmp(rest->out.text, "11\n", 3) == 0);
    HAS(run_expect(0, "help", "list")->out, "Jobs are listed in the order of their ids");
}

/* The first pages are sorted by the queue. The rest has more jobs than one call looks at. */
static void list_that_outgrows_one_call_has_each_job_once(void)
{
    enum { FIRST = 9900, MORE = 200 };
    static char lines[2 * FIRST];
    if (is_plain() || !passes_leases())
        return;
    for (size_t i = 0; i < FIRST; i++)
        memcpy(lines + 2 * i, "x\n", 2);
    run_expect_bytes(0, lines, sizeof(lines), "put", "t", "--lines", "--quiet");

    /* It stops within the first page when its pipe is full. */
    struct child *child = begin("list", "t", "--json", NULL);
    int ready = 0;
    for (int tries = 0; tries < 20000 && ready < 60000; tries++) {
        usleep(1000);
        EQ(ioctl(child->out.fd, FIONREAD, &ready), 0);
    }
    CHECK(ready >= 60000);
    run_expect_bytes(0, lines, (size_t)2 * MORE, "put", "t", "--lines", "--quiet");
    await_end(child, 0);

    json_t *jobs = json_of(child->out);
    CHECK(json_array_size(jobs) >= FIRST);
    for (size_t i = 1; i < json_array_size(jobs); i++)
        CHECK(number_in(json_array_get(jobs, i), "id") >
              number_in(json_array_get(jobs, i - 1), "id"));
}

static void empty_list_is_a_success(void)
{
    if (has_no_lists())
        return;
    put_job("something", "x");
    struct child *child = run_expect(0, "list", "something", "--state", "done");
    EQ(LINES(child->out), 1);
    PRINTS(run_expect(0, "list", "something", "--state", "done", "--json"), "");
    PRINTS(run_expect(0, "list", "something", "--state", "done", "--ids"), "");
}

static void list_of_an_unknown_topic_is_not_found(void)
{
    if (has_no_lists())
        return;
    struct child *child = run_expect(3, "list", "nosuch");
    HAS(child->err, "bide list: there is no topic nosuch");
    SILENT(child->out);
    SILENT(run_expect(3, "list", "nosuch", "--ids")->out);
    child = run_expect(3, "list", "nosuch", "--json");
    SILENT(child->out);
    EQ(number_in(json_at(child->err, 0), "exit"), 3);
    run_expect(0, "list");
}

/* The bytes of a photograph are of no use in a table. */
static void binary_bodies_are_listed_on_request(void)
{
    static const char bytes[] = "\x89PNG\r\n\x1a\n\0\0";
    if (has_no_lists())
        return;
    run_expect_bytes(0, bytes, sizeof(bytes) - 1, "put", "pictures");
    run_expect(0, "put", "pictures", "gr\xc3\xbc\xc3\x9f \x1b[1m");
    struct child *child = run_expect(0, "list", "pictures");
    HAS(child->out, "  (binary, 10 B)\n");
    HAS(child->out, "gr\xc3\xbc\xc3\x9f \\x1b[1m\n");
    LACKS(child->out, "PNG");
    HAS(run_expect(0, "list", "pictures", "--binary")->out, "PNG\\r\\n\\x1a\\n\\x00\\x00\n");
    child = begin_on_terminal(80, 24, "list", "pictures", NULL);
    await_end(child, 0);
    HAS(child->out, "(binary, 10 B)");
}

/* What is piped is often shown later: a terminal takes these bytes for commands, too. */
static void list_writes_no_control_characters_to_a_pipe(void)
{
    if (has_no_lists())
        return;
    run_expect(0, "put", "text", "\xc2\x9b[31m \xc2\x85 \xc3\xa4");
    HAS(run_expect(0, "list", "text")->out, "\\xc2\\x9b[31m \\xc2\\x85 \xc3\xa4\n");
    run_expect(0, "put", "bytes", "\x9b[31m \xe4 \x85");
    HAS(run_expect(0, "list", "bytes", "--binary")->out, "\\x9b[31m \xe4 \\x85\n");
}

static void put_keyed(const char *topic, const char *body, const char *key)
{
    bide *queue = open_test_queue();
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = (bide_slice){key, strlen(key)};
    OK(bide_put(queue, topic, body, strlen(body), &options, NULL));
    OK(bide_close(queue));
}

static void a_list_is_filtered_by_state_age_key_and_text(void)
{
    if (has_no_lists())
        return;
    bury(put_job("email", "to ada"));
    put_job("email", "to bob");
    put_keyed("email", "to eve", "order 7");
    EQ(LINES(run_expect(0, "list", "--ids")->out), 3);
    EQ(LINES(run_expect(0, "list", "--ids", "--state", "buried")->out), 1);
    EQ(LINES(run_expect(0, "list", "--ids", "--state", "done")->out), 0);
    EQ(LINES(run_expect(0, "list", "--ids", "--state", "ready,buried")->out), 3);
    EQ(LINES(run_expect(0, "list", "email", "--state", "done,buried", "--json")->out), 1);
    EQ(LINES(run_expect(0, "list", "--ids", "--state", "ready", "--state", "delayed")->out), 2);
    HAS(run_expect(2, "list", "--state", "ready,burried")->err, "is not a state");
    HAS(run_expect(2, "list", "--state", "ready,")->err, "is not a state");
    EQ(LINES(run_expect(0, "list", "--ids", "--text", "to b")->out), 1);
    EQ(LINES(run_expect(0, "list", "--ids", "--key", "order 7")->out), 1);
    EQ(LINES(run_expect(0, "list", "--ids", "--older-than", "1h")->out), 0);
    EQ(LINES(run_expect(0, "list", "--ids", "--younger-than", "1h")->out), 3);
    HAS(run_expect(2, "list", "--older-than", "2h", "--younger-than", "1h")->err, "no job is");
    HAS(run_expect(2, "list", "--younger-than", "0")->err, "--younger-than");
    HAS(run_expect(2, "list", "--state", "burried")->err, "is not a state");
}

/* One call may look at few jobs only when it searches bodies, and then has no order of its own. */
static void a_list_of_jobs_with_a_text_is_in_the_order_of_ids(void)
{
    if (has_no_lists())
        return;
    put_numbers("numbers", 90, false);
    ids_rise(&run_expect(0, "list", "numbers", "--ids", "--text", "numbers")->out, 90);
    struct child *part =
        run_expect(0, "list", "numbers", "--ids", "--text", "numbers", "--limit", "40");
    ids_rise(&part->out, 40);
    HAS(part->out, "\n40\n");
    HAS(part->err, "--cursor i28,");
    struct child *rest =
        run_expect(0, "list", "numbers", "--ids", "--text", "numbers", "--cursor", "i28");
    ids_rise(&rest->out, 50);
    LACKS(rest->out, "\n40\n");
}

static void list_continues_at_its_cursor(void)
{
    if (has_no_lists())
        return;
    char cursor[100] = "", text[32];
    bool seen[25] = {false};
    put_numbers("numbers", 25, false);
    for (int pages = 0; pages == 0 || cursor[0] != 0; pages++) {
        struct child *child =
            cursor[0] == 0
                ? run_expect(0, "list", "numbers", "--json", "--limit", "10")
                : run_expect(0, "list", "numbers", "--json", "--limit", "10", "--cursor", cursor);
        for (int i = 0; i < 25; i++) {
            snprintf(text, sizeof(text), "\"numbers-%d\"", i);
            int times = count_of(&child->out, text);
            CHECK(times == 0 || (times == 1 && !seen[i]));
            seen[i] = seen[i] || times == 1;
        }
        json_t *all = json_of(child->out);
        const json_t *last = json_array_get(all, json_array_size(all) - 1);
        const char *next = json_string_value(json_object_get(last, "cursor"));
        snprintf(cursor, sizeof(cursor), "%s", next == NULL ? "" : next);
        CHECK(pages < 10);
    }
    for (int i = 0; i < 25; i++)
        CHECK(seen[i]);
    HAS(run_expect(2, "list", "--cursor", "nonsense")->err, "cursor");
    HAS(run_expect(2, "list", "--cursor", "")->err, "cursor");
}

static void a_list_is_complete_in_a_pipe_and_short_on_a_terminal(void)
{
    if (has_no_lists())
        return;
    put_numbers("numbers", 250, false);
    struct child *child = run_expect(0, "list", "numbers");
    EQ(count_of(&child->out, "numbers-"), 250);
    child = begin_on_terminal(80, 24, "list", "numbers", NULL);
    await_end(child, 0);
    EQ(count_of(&child->out, "numbers-"), 100);
    HAS(child->out, "--cursor");
    child = begin_on_terminal(80, 24, "list", "numbers", "--limit", "0", NULL);
    await_end(child, 0);
    EQ(count_of(&child->out, "numbers-"), 250);
    LACKS(child->out, "--cursor");
}

static void list_fits_the_terminal_width(void)
{
    if (has_no_lists())
        return;
    char body[301];
    memset(body, 'b', 300);
    body[300] = 0;
    put_job("email", body);
    set_env("NO_COLOR", "1");
    struct child *child = begin_on_terminal(80, 24, "list", NULL);
    await_end(child, 0);
    HAS(child->out, "bbb…\r\n");
    LACKS(child->out, "\x1b");
    HAS(run_expect(0, "list")->out, body);
}

/* How many columns the widest line takes; all of it is ASCII but for "…". */
static size_t widest(const struct output *output)
{
    size_t most = 0, width = 0;
    for (const char *at = output->text; *at != 0; at++) {
        if (*at == '\r' || *at == '\n')
            width = 0;
        else
            width += (*at & 0xc0) != 0x80;
        most = width > most ? width : most;
    }
    return most;
}

static void no_table_is_wider_than_the_terminal(void)
{
    static char topic[151];
    memset(topic, 't', 150);
    put_job(topic, "the body");
    set_env("NO_COLOR", "1");
    static const int sizes[] = {20, 40, 72, 80, 120};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct child *child = begin_on_terminal(sizes[i], 24, "topics", NULL);
        await_end(child, 0);
        CHECK(widest(&child->out) <= (size_t)sizes[i]);
        HAS(child->out, "ttt…");
        HAS(child->out, "TOPIC");
        child = is_plain() ? NULL : begin_on_terminal(sizes[i], 24, "list", NULL);
        if (child == NULL)
            continue;
        await_end(child, 0);
        CHECK(widest(&child->out) <= (size_t)sizes[i]);
        HAS(child->out, "ttt…");
        if (sizes[i] >= 72)
            HAS(child->out, "the body");
    }
    HAS(run_expect(0, "topics")->out, topic);
}

/* ---- peek ---- */

static void peek_writes_the_bytes_of_a_body(void)
{
    static const char bytes[] = "a\0b\xff\n\x1b[31m";
    uint64_t id = 0;
    bide *queue = open_test_queue();
    OK(bide_put(queue, "bin", bytes, sizeof(bytes) - 1, NULL, &id));
    OK(bide_close(queue));
    struct child *child = run_expect(0, "peek", id_text(id));
    EQ(child->out.size, sizeof(bytes) - 1);
    CHECK(memcmp(child->out.text, bytes, sizeof(bytes) - 1) == 0);
    child = run_expect(0, "peek", "bin");
    EQ(child->out.size, sizeof(bytes) - 1);
    json_t *job = json_at(run_expect(0, "peek", "bin", "--json")->out, 0);
    EQ(number_in(job, "id"), (int64_t)id);
    EQ(number_in(job, "body_size"), (int64_t)sizeof(bytes) - 1);
    HAS(run_expect(0, "peek", "bin", "--json")->out, "\"body_base64\":\"YQBi/wobWzMxbQ==\"");
    EQ(count_jobs("bin", BIDE_STATE_READY), 1);
}

static void peek_sends_no_control_characters_to_a_terminal(void)
{
    put_job("email", "hello\x1b[31mred");
    struct child *child = begin_on_terminal(80, 24, "peek", "email", NULL);
    await_end(child, 0);
    OUTPUT_IS(child->out, "hello\\x1b[31mred\r\n");
}

static void peek_finds_the_first_of_a_state(void)
{
    put_job("email", "ready one");
    bury(put_job("email", "buried one"));
    PRINTS(run_expect(0, "peek", "email"), "ready one");
    PRINTS(run_expect(0, "peek", "email", "--state", "buried"), "buried one");
    PRINTS(run_expect(3, "peek", "email", "--state", "delayed"), "");
    PRINTS(run_expect(3, "peek", "nothing"), "");
}

static void peek_finds_a_key_and_a_result(void)
{
    if (is_plain()) {
        HAS(run_expect(1, "peek", "email", "--key", "k")->err, "plain beanstalkd");
        return;
    }
    put_keyed("email", "to eve", "order 7");
    PRINTS(run_expect(0, "peek", "email", "--key", "order 7"), "to eve");
    run_expect(3, "peek", "email", "--key", "order 8");
    uint64_t id = put_job("sums", "1+1");
    run_expect(5, "peek", id_text(id), "--result");
    bide *queue = open_test_queue();
    OK(bide_done(queue, id, 0, "2", 1, 3600000));
    OK(bide_close(queue));
    PRINTS(run_expect(0, "peek", id_text(id), "--result"), "2");
    PRINTS(run_expect(0, "peek", id_text(id)), "1+1");
}

static void digits_are_an_id_unless_a_topic_is_required(void)
{
    put_job("123456789", "of a topic of digits");
    run_expect(3, "peek", "123456789");
    PRINTS(run_expect(0, "peek", "123456789", "--state", "ready"), "of a topic of digits");
    run_expect(2, "peek", "0");
    run_expect(2, "peek", "99999999999999999999");
    run_expect(2, "peek", "no topic");
    run_expect(2, "peek", "email", "--state", "ready", "--key", "k");
}

/* ---- job ---- */

static void a_job_is_shown_as_text_and_as_json(void)
{
    uint64_t id = put_job("email", "hello");
    struct child *child = run_expect(0, "job", id_text(id));
    HAS(child->out, "topic            email\n");
    HAS(child->out, "state            ready\n");
    HAS(child->out, "body             5 B\n");
    HAS(child->out, " UTC, ");
    json_t *job = json_at(run_expect(0, "job", id_text(id), "--json")->out, 0);
    EQ(number_in(job, "id"), (int64_t)id);
    TEXT(text_in(job, "state"), strlen(text_in(job, "state")), "ready");
    EQ(number_in(job, "priority"), 1024);
    CHECK(json_object_get(job, "body") == NULL);
}

static void a_delayed_job_shows_when_it_is_due(void)
{
    bide *queue = open_test_queue();
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;
    options.delay_ms = 10 * HOUR_MS;
    OK(bide_put(queue, "email", "later", 5, &options, &id));
    OK(bide_close(queue));
    struct child *child = run_expect(0, "job", id_text(id));
    HAS(child->out, "state            delayed, ready in 9h59m\n");
    HAS(child->out, "\ndue ");
    CHECK(number_in(json_at(run_expect(0, "job", id_text(id), "--json")->out, 0), "left_ms") <=
          10 * HOUR_MS);
}

static void unknown_ids_do_not_hide_other_jobs(void)
{
    uint64_t id = put_job("email", "hello");
    struct child *child = run_expect(7, "job", "987654", id_text(id), "987655");
    HAS(child->out, "topic            email\n");
    HAS(child->err, "987654");
    HAS(child->err, "987655");
    run_expect(3, "job", "987654");
    child = run_expect(2, "job", id_text(id), "x");
    SILENT(child->out);
}

static void texts_of_a_job_break_no_line(void)
{
    uint64_t id = put_job("email", "hello");
    if (is_plain()) { /* which keeps none */
        bury(id);
        LACKS(run_expect(0, "job", id_text(id))->out, "last error");
        return;
    }
    bide *queue = open_test_queue();
    OK(bide_bury(queue, id, 0, BIDE_KEEP, "two\nlines"));
    OK(bide_close(queue));
    HAS(run_expect(0, "job", id_text(id))->out, "last error       two\\nlines\n");
    HAS(run_expect(0, "job", id_text(id))->out, ", attempt 0 was buried: two\\nlines\n");
}

static void a_reserved_job_shows_its_holder(void)
{
    uint64_t id = put_job("email", "hello");
    if (!passes_leases()) /* the lease of another place ends when the queue is closed */
        return;
    bide *queue = open_test_queue();
    bide_job job = reserve_by(queue, "email", "web1:47");
    HAS(run_expect(0, "job", id_text(id))->out, "holder           web1:47\n");
    json_t *object = json_at(run_expect(0, "job", id_text(id), "--json")->out, 0);
    TEXT(text_in(object, "holder"), strlen(text_in(object, "holder")), "web1:47");
    OK(bide_give_back(queue, id, job.token));
    LACKS(run_expect(0, "job", id_text(id))->out, "holder");
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void a_job_shows_its_last_failures(void)
{
    uint64_t id = put_job("email", "hello");
    LACKS(run_expect(0, "job", id_text(id))->out, "history");
    if (is_plain())
        return;
    bide *queue = open_test_queue();
    for (int i = 0; i < 2; i++) {
        bide_job job = reserve_by(queue, "email", i == 0 ? "web1:47" : "web2\n\x1b[1m");
        OK(bide_fail(queue, id, job.token, i == 0 ? "no route" : NULL, 0, NULL, NULL));
        bide_job_clear(&job);
    }
    OK(bide_close(queue));

    struct child *child = run_expect(0, "job", id_text(id));
    HAS(child->out, ", attempt 1 failed (web1:47): no route\nhistory          ");
    HAS(child->out, ", attempt 2 failed (web2??[1m)\n");
    LACKS(child->out, "holder");
    json_t *history =
        json_object_get(json_at(run_expect(0, "job", id_text(id), "--json")->out, 0), "history");
    EQ(json_array_size(history), 2);
    const json_t *first = json_array_get(history, 0), *second = json_array_get(history, 1);
    EQ(number_in(first, "attempt"), 1);
    TEXT(text_in(first, "kind"), strlen(text_in(first, "kind")), "failed");
    TEXT(text_in(first, "error"), strlen(text_in(first, "error")), "no route");
    TEXT(text_in(first, "holder"), strlen(text_in(first, "holder")), "web1:47");
    EQ(number_in(second, "attempt"), 2);
    CHECK(number_in(second, "at_ms") >= number_in(first, "at_ms"));
    CHECK(json_object_get(second, "error") == NULL);
}

/* ---- readers that go away ---- */

static void a_list_ends_when_its_pipe_is_closed(void)
{
    if (has_no_lists())
        return;
    put_numbers("numbers", 3000, false);
    struct child *child = begin("list", "numbers", "--json", NULL);
    end_output(child);
    await_end(child, 141);
    SILENT(child->err);
}

static const struct test tests[] = {
    TEST(topics_are_printed_one_per_line),
    TEST(the_table_of_topics_counts_every_state),
    TEST(topics_in_json_have_all_statistics),
    TEST(topics_of_many_pages_are_complete),
    TEST(topics_are_sorted_by_the_given_column),
    TEST(on_a_terminal_topics_are_in_order_and_coloured),
    TEST(stats_show_the_queue_or_one_topic),
    TEST(stats_of_an_unknown_topic_are_not_found),
    TEST(a_list_has_every_job_in_one_line),
    TEST(list_is_in_the_documented_order),
    TEST(list_that_outgrows_one_call_has_each_job_once),
    TEST(empty_list_is_a_success),
    TEST(list_of_an_unknown_topic_is_not_found),
    TEST(binary_bodies_are_listed_on_request),
    TEST(list_writes_no_control_characters_to_a_pipe),
    TEST(no_table_is_wider_than_the_terminal),
    TEST(a_list_is_filtered_by_state_age_key_and_text),
    TEST(a_list_of_jobs_with_a_text_is_in_the_order_of_ids),
    TEST(list_continues_at_its_cursor),
    TEST(a_list_is_complete_in_a_pipe_and_short_on_a_terminal),
    TEST(list_fits_the_terminal_width),
    TEST(peek_writes_the_bytes_of_a_body),
    TEST(peek_sends_no_control_characters_to_a_terminal),
    TEST(peek_finds_the_first_of_a_state),
    TEST(peek_finds_a_key_and_a_result),
    TEST(digits_are_an_id_unless_a_topic_is_required),
    TEST(a_job_is_shown_as_text_and_as_json),
    TEST(a_delayed_job_shows_when_it_is_due),
    TEST(unknown_ids_do_not_hide_other_jobs),
    TEST(texts_of_a_job_break_no_line),
    TEST(a_reserved_job_shows_its_holder),
    TEST(a_job_shows_its_last_failures),
    TEST(a_list_ends_when_its_pipe_is_closed),
};

const struct theme query_theme = {"query", tests, COUNT(tests)};
