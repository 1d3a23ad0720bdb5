/* SPDX-License-Identifier: MIT */
/*
 * What goes into an output comes out of a socket, whole and in order. The model is one run of bytes
 * that everything is added to.
 */
#include "unit.h"

#include "server/output.h"
#include "util/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct fixture {
    struct output output;
    int fds[2]; /* the output writes to [0] */
    char *said; /* all that was added */
    size_t said_size, said_room;
    size_t heard; /* of it */
};

/* ---- helpers ---- */

static int set_up(void **state)
{
    static struct fixture f;
    int small = 4608; /* about the least that there is */
    f = (struct fixture){.fds = {-1, -1}};
    bi_output_init(&f.output);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, f.fds), 0);
    setsockopt(f.fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    bi_output_done(&f->output);
    close(f->fds[0]);
    close(f->fds[1]);
    free(f->said);
    return 0;
}

static void model_add(struct fixture *f, const void *data, size_t size)
{
    if (f->said_room - f->said_size < size) {
        f->said_room = (f->said_room + size) * 2;
        f->said = realloc(f->said, f->said_room);
        assert_non_null(f->said);
    }
    if (size > 0)
        memcpy(f->said + f->said_size, data, size);
    f->said_size += size;
}

static void add(struct fixture *f, const void *data, size_t size)
{
    bi_output_add(&f->output, data, size);
    model_add(f, data, size);
}

static void fill(char *data, size_t size, uint64_t seed)
{
    struct bi_random random = {seed};
    for (size_t i = 0; i < size; i++)
        data[i] = (char)bi_random_next(&random);
}

static void add_body(struct fixture *f, size_t size, uint64_t seed)
{
    char *data = malloc(size + 1);
    assert_non_null(data);
    fill(data, size, seed);
    bide_buf *buf = bide_buf_new(data, size);
    assert_non_null(buf);
    bi_output_body(&f->output, buf, bide_buf_data(buf), size);
    bide_buf_unref(buf); /* the output has its own reference, or a copy */
    model_add(f, data, size);
    free(data);
}

/* Reads at most that much, and compares. */
static size_t hear(struct fixture *f, size_t max)
{
    static char data[65536];
    if (max > sizeof(data))
        max = sizeof(data);
    ssize_t got = recv(f->fds[1], data, max, 0);
    if (got < 0) {
        assert_int_equal(errno, EAGAIN);
        return 0;
    }
    assert_true((size_t)got <= f->said_size - f->heard);
    assert_memory_equal(data, f->said + f->heard, (size_t)got);
    f->heard += (size_t)got;
    return (size_t)got;
}

/* Writes and reads until nothing is left. */
static void drain(struct fixture *f)
{
    for (int i = 0; i < 1000000 && (bi_output_left(&f->output) > 0 || f->heard < f->said_size);
         i++) {
        assert_true(bi_output_write(&f->output, f->fds[0]));
        hear(f, SIZE_MAX);
    }
    assert_int_equal(bi_output_left(&f->output), 0);
    assert_int_equal(f->heard, f->said_size);
    assert_int_equal(hear(f, 1), 0);
}

/* ---- tests ---- */

static void short_replies_need_no_allocation(void **state)
{
    struct fixture *f = *state;
    char bytes[OUTPUT_SMALL] = {0};
    assert_true(bi_output_write(&f->output, f->fds[0])); /* nothing to say is fine */
    add(f, bytes, 0);
    add(f, "INSERTED 1\r\n", 12);
    add(f, bytes, OUTPUT_SMALL - 12);
    assert_int_equal(bi_output_left(&f->output), OUTPUT_SMALL);
    assert_int_equal(bi_output_memory(&f->output), 0);
    drain(f);
    add(f, bytes, OUTPUT_SMALL);
    assert_int_equal(bi_output_memory(&f->output), 0);
    add(f, bytes, 1);
    assert_true(bi_output_memory(&f->output) > OUTPUT_SMALL);
    drain(f);
}

static void numbers_and_texts_are_written_as_they_are(void **state)
{
    static const uint64_t numbers[] = {0, 9, 10, 4294967295, UINT64_MAX};
    struct fixture *f = *state;
    char text[700];
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        bi_output_number(&f->output, numbers[i]);
        snprintf(text, sizeof(text), "%llu", (unsigned long long)numbers[i]);
        model_add(f, text, strlen(text));
    }
    bi_output_text(&f->output, "TIMED_OUT\r\n");
    model_add(f, "TIMED_OUT\r\n", 11);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    bi_output_format(&f->output, "<%s %d>", text, 5); /* grows on the way */
    model_add(f, "<", 1);
    model_add(f, text, strlen(text));
    model_add(f, " 5>", 3);
    bi_output_format(&f->output, "%s", "");
    assert_false(f->output.broken);
    drain(f);
}

static void a_large_body_is_not_copied(void **state)
{
    struct fixture *f = *state;
    add_body(f, OUTPUT_COPY, 1);
    assert_int_equal(f->output.body_count, 0);
    add_body(f, OUTPUT_COPY + 1, 2);
    assert_int_equal(f->output.body_count, 1);
    assert_int_equal(f->output.body_bytes, OUTPUT_COPY + 1);
    add(f, "\r\n", 2);
    assert_int_equal(bi_output_left(&f->output), 2 * OUTPUT_COPY + 3);
    drain(f);
}

static void part_of_a_buffer_is_copied(void **state)
{
    struct fixture *f = *state;
    static char data[20000];
    fill(data, sizeof(data), 3);
    bide_buf *buf = bide_buf_new(data, sizeof(data));
    bi_output_body(&f->output, buf, (const char *)bide_buf_data(buf) + 10, 10000);
    bide_buf_unref(buf);
    model_add(f, data + 10, 10000);
    bi_output_body(&f->output, NULL, data, 5000);
    model_add(f, data, 5000);
    bi_output_body(&f->output, NULL, NULL, 0);
    assert_int_equal(f->output.body_count, 0);
    drain(f);
}

static void bodies_are_interleaved_with_replies(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 0; i < 300; i++) {
        if (i % 3 != 0)
            add(f, "RESERVED\r\n", 10);
        add_body(f, OUTPUT_COPY + 1 + i * 7, i);
        if (i % 5 != 0)
            add(f, "\r\n", 2);
    }
    drain(f);
    assert_int_equal(f->output.body_bytes, 0);
}

static void unsent_bodies_are_released(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 0; i < 10; i++)
        add_body(f, 100000, i);
    assert_true(bi_output_write(&f->output, f->fds[0]));
    assert_true(bi_output_left(&f->output) > 0);
    bi_output_done(&f->output); /* the sanitizer sees what is not */
    assert_int_equal(bi_output_left(&f->output), 0);
    add(f, "x", 1);
    assert_int_equal(bi_output_left(&f->output), 1);
}

static void sent_bytes_are_compacted(void **state)
{
    struct fixture *f = *state;
    static char data[3000];
    size_t most = 0;
    fill(data, sizeof(data), 4);
    add(f, data, sizeof(data));
    add(f, data, sizeof(data));
    for (int i = 0; i < 2000; i++) {
        add(f, data, sizeof(data) - (size_t)i % 100);
        for (int tries = 0; tries < 1000 && bi_output_left(&f->output) > 2 * sizeof(data);
             tries++) {
            assert_true(bi_output_write(&f->output, f->fds[0]));
            hear(f, 1 + (size_t)i % 1000);
        }
        if (bi_output_memory(&f->output) > most)
            most = bi_output_memory(&f->output);
    }
    assert_true(most <= (size_t)64 << 10); /* of six million bytes */
    drain(f);
}

static void empty_output_frees_its_memory_and_full_one_does_not(void **state)
{
    struct fixture *f = *state;
    static char data[100000];
    add(f, data, sizeof(data));
    bi_output_trim(&f->output, 16384);
    assert_int_equal(bi_output_left(&f->output), sizeof(data));
    drain(f);
    assert_true(bi_output_memory(&f->output) >= sizeof(data));
    bi_output_trim(&f->output, 16384);
    assert_int_equal(bi_output_memory(&f->output), 0);
    add(f, data, 1000);
    drain(f);
    bi_output_trim(&f->output, 16384);
    assert_true(bi_output_memory(&f->output) > 0); /* little enough to be kept */
}

static void body_list_memory_is_released_too(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 0; i < 2000; i++)
        add_body(f, OUTPUT_COPY + 1, i);
    drain(f);
    assert_true(f->output.body_room >= 2000);
    bi_output_trim(&f->output, 16384);
    assert_int_equal(f->output.body_room, 0);
}

/* The reply that could not be added is missing for ever: the connection must still be closed. */
static void trimmed_output_stays_broken(void **state)
{
    struct fixture *f = *state;
    static char data[100000];
    add(f, data, sizeof(data));
    drain(f);
    f->output.broken = true;
    uint64_t sent_total = f->output.sent_total;
    bi_output_trim(&f->output, 16384);
    assert_int_equal(bi_output_memory(&f->output), 0);
    assert_true(f->output.broken);
    assert_int_equal(f->output.sent_total, sent_total);
}

static void disconnected_peer_is_detected(void **state)
{
    struct fixture *f = *state;
    close(f->fds[1]);
    f->fds[1] = -1;
    add(f, "x", 1);
    assert_false(bi_output_write(&f->output, f->fds[0]));
    add_body(f, 10000, 1);
    assert_false(bi_output_write(&f->output, f->fds[0]));
}

static void step(struct fixture *f, struct bi_random *random)
{
    static char data[9000];
    uint64_t what = bi_random_below(random, 12);
    size_t size = (size_t)bi_random_below(random, what < 4 ? 40 : sizeof(data));
    if (what < 5) {
        fill(data, size, bi_random_next(random));
        add(f, data, size);
    } else if (what < 7) {
        add_body(f, size * (1 + (size_t)bi_random_below(random, 4)), bi_random_next(random));
    } else if (what < 9) {
        assert_true(bi_output_write(&f->output, f->fds[0]));
    } else if (what < 11) {
        hear(f, 1 + size);
    } else {
        bi_output_trim(&f->output, size);
    }
}

static void output_matches_a_naive_model(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct bi_random random = {seed};
        for (int turn = 0; turn < 2000; turn++) {
            step(f, &random);
            assert_false(f->output.broken);
            assert_true(bi_output_left(&f->output) <= f->said_size - f->heard);
            if (bi_output_left(&f->output) > 300000)
                drain(f);
        }
        drain(f);
        f->said_size = f->heard = 0;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(short_replies_need_no_allocation),
        TEST(numbers_and_texts_are_written_as_they_are),
        TEST(a_large_body_is_not_copied),
        TEST(part_of_a_buffer_is_copied),
        TEST(bodies_are_interleaved_with_replies),
        TEST(unsent_bodies_are_released),
        TEST(sent_bytes_are_compacted),
        TEST(empty_output_frees_its_memory_and_full_one_does_not),
        TEST(body_list_memory_is_released_too),
        TEST(trimmed_output_stays_broken),
        TEST(disconnected_peer_is_detected),
        TEST(output_matches_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
