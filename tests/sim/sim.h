/* SPDX-License-Identifier: MIT */
/*
 * sim - one simulation: a core, a naive model of it, and what happens to both.
 *
 * A seed decides everything: the options, the ops, the clocks, the failing allocations, the
 * commits and the crashes. Each op runs on the core first; then the model does the same in its
 * own plain way and compares every answer. Where the core may choose, the model looks at what it
 * chose, checks that it was allowed to, and goes on from there.
 *
 * Failure    The first disagreement prints what was expected and what came, and ends the seed
 *            (sim_fail does not return).
 */
#ifndef SIM_H
#define SIM_H

#include "alloc.h"
#include "core/core.h"
#include "core/token.h"
#include "rng.h"

#include <setjmp.h>

#define SIM_TEXT              64 /* the most bytes of a body, result or text here */
#define SIM_RESTORED_FAILURES 3  /* the most failures of a job that is not an exported one */
#define SIM_ITEMS             8  /* the most items, jobs and events of one op */
#define SIM_TOPICS            4  /* the most topics of one reserve */
#define SIM_NAMES             12 /* topics there are */
#define SIM_KEYS              6  /* keys there are */
#define SIM_PAGE              40 /* jobs and topics in the pages of a full comparison */
#define SIM_ROWS              12 /* rows that are read at a time */
#define SIM_LISTINGS          3
#define SIM_WORKERS           8    /* names of workers there are */
#define SIM_WORKER            1100 /* the most bytes of an announcement */
#define SIM_COMPLETED         256  /* completions in one step */

#define US_PER_MS INT64_C(1000)

/* What the command line says. -1: as the seed decides. */
struct sim_config {
    uint64_t first_seed;
    uint64_t last_seed;
    uint64_t steps;
    int journal;
    int wheel;
    int alloc;
    bool verbose;
};

/* A job that a reserving op had taken before its bodies came. */
struct sim_shown {
    uint64_t id;
    uint64_t token;
    bool lacks;
};

/* The bodies that an op lacks, and what it had and held for until then. */
struct sim_reading {
    struct bi_body bodies[SIM_ITEMS];
    size_t count;
    bool done;
    struct sim_shown shown[SIM_ITEMS];
    size_t shown_count;
    uint64_t hold;
};

/* More batches than can be under way. */
#define SIM_PARTS (2 * BI_BATCHES_MAX)

/* An op with the memory that its arguments and results live in. */
struct sim_op {
    bide_op op; /* first, so that the core's pointer leads back here */
    struct sim_op *next;
    struct sim_op *prev;
    bool waiting;   /* the core has it */
    bool completed; /* the sink has had it */
    struct {
        bool began;
        bool failed;      /* a commit failed on the way */
        uint64_t count;   /* done so far */
        uint64_t entered; /* the model's sequence number at the start */
        int64_t at;       /* mono, at the start */
        uint64_t hold;
        uint64_t done[SIM_PARTS]; /* how many in which batch, at its number modulo SIM_PARTS */
        uint64_t done_in[SIM_PARTS];
        bide_state state;
        bool pinned;
        int name;
    } slices; /* what the model knows of an op that is done in slices */
    struct sim_reading reading;
    uint64_t finish_hold; /* what a finish_and_reserve holds for, whatever it reserves */
    bide_slice topics[SIM_TOPICS];
    uint32_t weights[SIM_TOPICS];
    bide_put_item puts[SIM_ITEMS];
    bide_put_options options[SIM_ITEMS];
    bide_finish_item finishes[SIM_ITEMS];
    bide_touch_item touches[SIM_ITEMS];
    char bytes[SIM_ITEMS][SIM_TEXT];
    char holder[SIM_TEXT];
    unsigned char worker[SIM_WORKER];
    bide_announced workers[SIM_WORKERS + 1];
    bide_explanation why;
    bide_job jobs[SIM_ITEMS];
    bide_event events[SIM_ITEMS];
    bide_job restored;
    unsigned char history[SIM_RESTORED_FAILURES * (BI_JOB_HISTORY_HEADER + 2 * SIM_TEXT)];
};

struct sim_ops {
    struct sim_op *first;
    struct sim_op *last;
    size_t count;
};

/* The store: what has been committed, and what a restart begins with. */
struct sim_store {
    struct bi_image *jobs; /* by id */
    size_t count;
    size_t room;
    int64_t pauses[SIM_NAMES]; /* wall time; 0: not paused */
    bide_buf *policies[SIM_NAMES];
    uint64_t next_id;
    uint64_t next_token;
    uint64_t lease_from; /* 0 but after an orderly end */
};

/* What comes back after a crash, while other things go on. */
struct sim_loading {
    enum { LOADED, LOADING, COLLECTING, APPLYING } phase;
    uint64_t after; /* up to this id all have come; from below on they are new */
    uint64_t below;
    uint64_t *early; /* came before their turn */
    size_t early_count;
    size_t early_room;
    struct bi_image rows[SIM_ROWS]; /* read, and not loaded yet */
    size_t row;
    size_t row_count;
    struct bi_load_sort ordering;
};

struct listing;
struct model;

struct sim {
    const struct sim_config *config;
    uint64_t seed;
    uint64_t step;
    const char *what; /* what is being done, for a failure */
    jmp_buf failed;

    struct rng rng;
    struct bi_now now;
    struct bi_core_options options;
    struct core *core;
    struct model *model;
    struct sim_alloc alloc;
    size_t job_target;   /* about so many jobs there are */
    bool floods;         /* and now and then many more */
    bool coarse;         /* the clocks show whole milliseconds, so that deadlines meet */
    bool alloc_fails;    /* in this seed allocations fail now and then */
    bool allowed_enomem; /* an allocation failed in the call that is being compared */
    uint64_t memory;     /* what a core with nothing in it uses, by its own count */
    uint64_t answers;    /* a running hash of everything the core has said */

    struct sim_ops waiting; /* in the core */
    struct sim_ops lacking; /* they show jobs whose bodies must be read first */
    bool eager;             /* bodies come at once */
    bool paging; /* a page waits for its bodies: no commit may fail, which would end the listing */
    uint64_t unreadable; /* percent of bodies that cannot be read */
    struct sim_ops held; /* answered, but not before their batch is stored */
    struct sim_ops idle;
    struct sim_op *completed[SIM_COMPLETED]; /* by the sink, in order, since the last comparison */
    size_t completed_count;
    size_t completed_seen;

    struct sim_store store;
    struct sim_loading loading;
    struct bi_batch batch; /* sealed and not yet stored */
    bool batch_open;

    struct listing *listings[SIM_LISTINGS];
    char worker_cursor[BIDE_CURSOR_SIZE]; /* of the listing of workers */
    bide_subscription *feeds[4];
    bide_job page[SIM_PAGE];
    bide_topic_stats topic_page[SIM_PAGE];
    bide_topic_policy policy, in_force;
    uint64_t old_ids[64]; /* leases that were once good */
    uint64_t old_tokens[64];
    struct bi_tokens tokens;
    size_t old_count;
};

/* May bodies be out of memory? */
static inline bool sim_has_cache(const struct sim *sim)
{
    return sim->options.journal && sim->options.limits.cache_bytes != 0;
}

/* Does a batch end when it is large enough? */
static inline bool sim_has_batches(const struct sim *sim)
{
    const struct bi_limits *limits = &sim->options.limits;
    return sim->options.journal && (limits->batch_jobs != 0 || limits->batch_bytes != 0);
}

extern const char *const sim_names[SIM_NAMES];
extern const char *const sim_keys[SIM_KEYS];

/* The index of a name or key; -1 for none. */
int sim_name_of(bide_slice name);
int sim_key_of(bide_slice key);
bide_slice sim_slice(const char *text);
/* To an array for a topic. */
void sim_copy_name(char *to, int name);

/* ---- main.c ---- */

__attribute__((noreturn, format(printf, 2, 3))) void sim_fail(struct sim *sim, const char *format,
                                                              ...);

/* What happens, for --verbose; sop is NULL for what is not an op. */
void sim_trace(struct sim *sim, const struct sim_op *sop, int code);

/* ---- driver.c: one seed, once ---- */

/* False after a failure. *hash tells two runs of a seed apart. */
bool sim_run(const struct sim_config *config, uint64_t seed, uint64_t *hash);

/* Runs one op on the core and the model, and files it: idle, waiting or held. */
void sim_do(struct sim *sim, struct sim_op *sop);

/* What others do while an op is under way. */
void sim_interleave(struct sim *sim);

struct sim_op *sim_op_get(struct sim *sim, bide_op_kind kind);
void sim_op_put(struct sim *sim, struct sim_op *sop);
void sim_ops_add(struct sim_ops *ops, struct sim_op *sop);
void sim_ops_remove(struct sim_ops *ops, struct sim_op *sop);

/* Fails if the sink was told of more than the model knows of. */
void sim_check_completions(struct sim *sim);

/* ---- options.c: what a seed chooses at its start ---- */

void sim_choose_options(struct sim *sim);

/* ---- clock.c: time ---- */

void sim_clock_step(struct sim *sim);
/* Both clocks to a whole millisecond, if this seed has it so. */
void sim_clock_round(struct sim *sim);
void sim_tick(struct sim *sim);

/* ---- gen_*.c: random ops ---- */

struct sim_op *sim_generate(struct sim *sim);
/* Many jobs of one topic and state, and then something is done to all of them. */
void sim_flood(struct sim *sim);
void sim_gen_put(struct sim *sim, struct sim_op *sop);
void sim_gen_put_many(struct sim *sim, struct sim_op *sop);
void sim_gen_finish_and_put(struct sim *sim, struct sim_op *sop);
void sim_pick_finish(struct sim *sim, char *room, bide_finish_item *item);
void sim_gen_restore(struct sim *sim, struct sim_op *sop);
void sim_gen_restore_as(struct sim *sim, struct sim_op *sop, int name, bide_state state);
void sim_gen_reserve(struct sim *sim, struct sim_op *sop);
void sim_gen_lease(struct sim *sim, struct sim_op *sop);
void sim_gen_done(struct sim *sim, struct sim_op *sop);
void sim_gen_finish_many(struct sim *sim, struct sim_op *sop);
void sim_gen_touch(struct sim *sim, struct sim_op *sop);
void sim_gen_touch_many(struct sim *sim, struct sim_op *sop);
void sim_gen_finish_and_reserve(struct sim *sim, struct sim_op *sop);
void sim_gen_release(struct sim *sim, struct sim_op *sop);
void sim_gen_fail(struct sim *sim, struct sim_op *sop);
void sim_gen_bury(struct sim *sim, struct sim_op *sop);
void sim_gen_announce(struct sim *sim, struct sim_op *sop);
void sim_gen_workers(struct sim *sim, struct sim_op *sop);
void sim_gen_why(struct sim *sim, struct sim_op *sop);
void sim_end_workers(struct sim *sim);
uint64_t sim_pick_id(struct sim *sim);
int sim_pick_name(struct sim *sim);
int64_t sim_pick_ms(struct sim *sim);
int64_t sim_pick_retain(struct sim *sim);
bide_slice sim_pick_text(struct sim *sim, char *room, size_t max);
bide_slice sim_pick_holder(struct sim *sim, struct sim_op *sop);

/* ---- listing.c: pages with other steps between them ---- */

/* Begins a listing, or takes the next page of one. */
void sim_listing_step(struct sim *sim);
void sim_listing_drop_all(struct sim *sim);
void sim_list_everything(struct sim *sim);

/* ---- compare_all.c: everything, through ops ---- */

void sim_compare_all(struct sim *sim);
/* What the core says that it uses. */
uint64_t sim_memory(struct sim *sim);
/* Ends everything that there is; no memory may remain in use. */
void sim_empty(struct sim *sim);

/* ---- body_fetch.c: bodies that only the store has ---- */

struct mjob;

/* An op lacks bodies: they come some time later. */
void sim_await_bodies(struct sim *sim, struct sim_op *sop);
void sim_supply(struct sim *sim, struct sim_op *sop);
void sim_supply_step(struct sim *sim);
void sim_reading_drop(struct sim_reading *reading);
/* The op is answered with an error instead. */
void sim_abandon_op(struct sim *sim, struct sim_op *sop);
/* Those that hold for what was undone are. */
void sim_fail_fetching(struct sim *sim);
/* None may be left. */
void sim_end_fetching(struct sim *sim);
/* Whoever can be is served. */
void sim_serve(struct sim *sim);
/* Removes a job whose body is being read. */
void sim_end_job(struct sim *sim, uint64_t id);
bool sim_has_body(struct sim *sim, const struct mjob *job);
void sim_check_cache(struct sim *sim);

/* ---- store.c and commit.c: the simulated store and what happens to it ---- */

void sim_store_apply(struct sim_store *store, const struct bi_batch *batch);
void sim_store_done(struct sim_store *store);
/* NULL if it has none. */
const struct bi_image *sim_store_find(const struct sim_store *store, uint64_t id);
/* The references of an image. */

/* Gives the answer of an op that has completed, now or when its batch is stored. */
void sim_answer(struct sim *sim, struct sim_op *sop);
/* The next commit fails. */
void sim_fail_commit(struct sim *sim);
/* The count of a kick or purge that has failed must be that of what is stored. */
void sim_check_count(struct sim *sim, struct sim_op *sop);
/* Commits whatever there is. */
void sim_commit_all(struct sim *sim);
/* Seals, commits, fails to commit, or ends and comes back. */
void sim_commit_step(struct sim *sim);
/* Closes the core: every waiting op must complete, once. */
void sim_close(struct sim *sim);
/* The same at an orderly end: what is reserved is given back, and everything is stored. */
void sim_stop(struct sim *sim);

/* ---- check_call.c ---- */

/* The core must know exactly what the store has. */
void sim_compare_store(struct sim *sim);

/* ---- load.c: crashes and restarts ---- */

/* A core with nothing in it, and a model that knows nothing. */
void sim_new_core(struct sim *sim);
/* The queue ends, in order or not, and what was stored comes back. */
void sim_restart(struct sim *sim);
/* What was stored comes back a little, or all the rest of it. */
void sim_load_step(struct sim *sim);
void sim_load_rest(struct sim *sim);
void sim_load_drop(struct sim *sim);
/* What a plain image does not say may be anything. */
void sim_scribble(struct sim *sim, struct bi_image *image);
/* Has the job come, if there is one? */
bool sim_load_has(const struct sim *sim, uint64_t id);
/* Jobs that the op names come first. */
void sim_load_named(struct sim *sim, const struct sim_op *sop);
/* Does the op have to know everything, and not everything has come? */
bool sim_must_wait(const struct sim *sim, const struct sim_op *sop);
/* The id of a stored job while loading goes on; 0 for none. */
uint64_t sim_load_pick(struct sim *sim);

/* ---- expect.c ---- */

static inline void sim_hash(struct sim *sim, uint64_t value)
{
    sim->answers = (sim->answers ^ value) * UINT64_C(0x9fb21c651e98df25);
    sim->answers ^= sim->answers >> 29;
}

__attribute__((noreturn)) void sim_differs(struct sim *sim, const char *what, int64_t want,
                                           int64_t got);

/* Every number that the core answers goes through here: compared, and into the hash. */
static inline void expect(struct sim *sim, const char *what, int64_t want, int64_t got)
{
    sim_hash(sim, (uint64_t)got);
    if (want != got)
        sim_differs(sim, what, want, got);
}

void expect_code(struct sim *sim, const char *what, int want, int got);
void expect_bytes(struct sim *sim, const char *what, const void *want, size_t want_size,
                  const void *got, size_t got_size);
void expect_true(struct sim *sim, bool true_, const char *sentence);

#endif
