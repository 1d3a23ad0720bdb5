/* SPDX-License-Identifier: MIT */
#include "core/job.h"

#include "unit.h"

#define STATES (BIDE_STATE_DONE + 1)

/* Every pair of states, and the op that makes the change, or NULL. "gone" is where a new job comes
 * from and an old one goes to. */
static const struct {
    bide_state from, to;
    const char *by;
} pairs[STATES * STATES] = {
    {BIDE_STATE_GONE, BIDE_STATE_GONE, NULL},
    {BIDE_STATE_GONE, BIDE_STATE_DELAYED, "put with a delay"},
    {BIDE_STATE_GONE, BIDE_STATE_READY, "put"},
    {BIDE_STATE_GONE, BIDE_STATE_RESERVED, NULL},
    {BIDE_STATE_GONE, BIDE_STATE_BURIED, "restore"},
    {BIDE_STATE_GONE, BIDE_STATE_DONE, "restore"},

    {BIDE_STATE_DELAYED, BIDE_STATE_GONE, "delete, cancel, purge, expiry, done without retention"},
    {BIDE_STATE_DELAYED, BIDE_STATE_DELAYED, "update to another topic, fail"},
    {BIDE_STATE_DELAYED, BIDE_STATE_READY, "its due time, kick, update"},
    {BIDE_STATE_DELAYED, BIDE_STATE_RESERVED, "reserve_job"},
    {BIDE_STATE_DELAYED, BIDE_STATE_BURIED, "bury, fail at the limit"},
    {BIDE_STATE_DELAYED, BIDE_STATE_DONE, "done without a lease"},

    {BIDE_STATE_READY, BIDE_STATE_GONE, "delete, cancel, purge, expiry, done without retention"},
    {BIDE_STATE_READY, BIDE_STATE_DELAYED, "update, fail without a lease"},
    {BIDE_STATE_READY, BIDE_STATE_READY, "update to another topic, fail with no delay"},
    {BIDE_STATE_READY, BIDE_STATE_RESERVED, "reserve"},
    {BIDE_STATE_READY, BIDE_STATE_BURIED, "bury, fail at the limit"},
    {BIDE_STATE_READY, BIDE_STATE_DONE, "done without a lease"},

    {BIDE_STATE_RESERVED, BIDE_STATE_GONE, "delete, done without retention"},
    {BIDE_STATE_RESERVED, BIDE_STATE_DELAYED, "release with a delay, fail, ttr with a limit"},
    {BIDE_STATE_RESERVED, BIDE_STATE_READY, "release, give_back, ttr"},
    {BIDE_STATE_RESERVED, BIDE_STATE_RESERVED, NULL},
    {BIDE_STATE_RESERVED, BIDE_STATE_BURIED, "bury, fail and ttr at the limit"},
    {BIDE_STATE_RESERVED, BIDE_STATE_DONE, "done"},

    {BIDE_STATE_BURIED, BIDE_STATE_GONE, "delete, cancel, purge, done without retention"},
    {BIDE_STATE_BURIED, BIDE_STATE_DELAYED, NULL},
    {BIDE_STATE_BURIED, BIDE_STATE_READY, "kick"},
    {BIDE_STATE_BURIED, BIDE_STATE_RESERVED, "reserve_job"},
    {BIDE_STATE_BURIED, BIDE_STATE_BURIED, "update to another topic"},
    {BIDE_STATE_BURIED, BIDE_STATE_DONE, "done without a lease"},

    {BIDE_STATE_DONE, BIDE_STATE_GONE, "the end of retention, delete, purge"},
    {BIDE_STATE_DONE, BIDE_STATE_DELAYED, NULL},
    {BIDE_STATE_DONE, BIDE_STATE_READY, NULL},
    {BIDE_STATE_DONE, BIDE_STATE_RESERVED, NULL},
    {BIDE_STATE_DONE, BIDE_STATE_BURIED, NULL},
    {BIDE_STATE_DONE, BIDE_STATE_DONE, "update to another topic"},
};

static void legal_transitions_are_those_of_ops(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        if (bi_job_may_enter(pairs[i].from, pairs[i].to) != (pairs[i].by != NULL))
            fail_msg("%s to %s: %s", bide_state_name(pairs[i].from), bide_state_name(pairs[i].to),
                     pairs[i].by != NULL ? pairs[i].by : "no op does it");
}

static void table_has_every_pair_of_states_once(void **state)
{
    (void)state;
    bool seen[STATES][STATES] = {{false}};
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        assert_false(seen[pairs[i].from][pairs[i].to]);
        seen[pairs[i].from][pairs[i].to] = true;
    }
    assert_int_equal(COUNT_OF(pairs), 36);
}

static void a_job_is_as_small_as_its_header_says(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct job), 88);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_transitions_are_those_of_ops),
        cmocka_unit_test(table_has_every_pair_of_states_once),
        cmocka_unit_test(a_job_is_as_small_as_its_header_says),
    };
    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
