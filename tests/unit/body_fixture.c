/* SPDX-License-Identifier: MIT */
#include "body_fixture.h"

#define BODY_MAX 65535

const char *body_bytes(size_t size)
{
    static char bytes[BODY_MAX + 1];
    assert_true(size <= BODY_MAX);
    memset(bytes, 'a' + (int)(size % 26), size);
    return bytes;
}

bide_buf *body_buf(size_t size)
{
    return bide_buf_new(body_bytes(size), size);
}

void assert_body(const void *body, size_t got, size_t size)
{
    assert_int_equal(got, size);
    if (size > 0)
        assert_memory_equal(body, body_bytes(size), size);
}

void bodies_open(struct core_fixture *fixture, uint64_t cache_bytes)
{
    core_fixture_init(fixture);
    fixture->options.journal = true;
    fixture->options.limits.cache_bytes = cache_bytes;
    core_fixture_start(fixture);
    commit(fixture);
}

int set_up_bodies(void **state)
{
    (void)state;
    bodies_open(&w, 1);
    return 0;
}

uint64_t put_sized(struct core_fixture *fixture, const char *topic, size_t size,
                   const bide_put_options *options)
{
    bide_op op = {
        .kind = BIDE_OP_PUT,
        .put = {.topic = text(topic), .body = {body_bytes(size), size}, .options = options}};
    assert_int_equal(run(fixture, &op), BIDE_OK);
    return op.put.id;
}

uint64_t store_sized(struct core_fixture *fixture, const char *topic, size_t size)
{
    uint64_t id = put_sized(fixture, topic, size, NULL);
    commit(fixture);
    return id;
}

bool lacks_body(const bide_op *op)
{
    return (op->private_.flags & BI_BODY_MISSING) != 0;
}

bool in_memory(struct core_fixture *fixture, uint64_t id, size_t size)
{
    bide_op op = {.kind = BIDE_OP_BODY, .fetch = {.id = id}};
    assert_int_equal(run(fixture, &op), BIDE_OK);
    if (lacks_body(&op)) {
        assert_null(op.fetch.buf);
        return false;
    }
    assert_body(bide_buf_data(op.fetch.buf), bide_buf_size(op.fetch.buf), size);
    bide_buf_unref(op.fetch.buf);
    return true;
}

int supply_except(struct core_fixture *fixture, bide_op *op, uint64_t bad)
{
    struct bi_body bodies[64];
    size_t count = bi_body_fetch_missing(op, 0, bodies, COUNT_OF(bodies));
    assert_in_range(count, 1, COUNT_OF(bodies) - 1);
    for (size_t i = 0; i < count; i++) {
        bodies[i].body = bodies[i].id == bad ? NULL : body_buf(bodies[i].size);
        bodies[i].reason = bodies[i].id == bad ? "the page is torn" : "";
    }
    int code = bi_body_fetch_supply(fixture->core, op, bodies, fixture->now);
    for (size_t i = 0; i < count; i++)
        bide_buf_unref(bodies[i].body);
    assert_int_equal(lacks_body(op), code == BI_AGAIN);
    core_fixture_check(fixture);
    return code;
}

int supply(struct core_fixture *fixture, bide_op *op)
{
    return supply_except(fixture, op, 0);
}
