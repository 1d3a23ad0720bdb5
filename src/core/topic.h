/* SPDX-License-Identifier: MIT */
/*
 * topic - a named queue: its jobs by state, who waits for it, its pause and its counters.
 *
 * Ready jobs stand in a heap by (priority, id), delayed ones in a heap by (due, id), one heap for
 * each clock. Every job also stands in the list of its state, in order of entry: the oldest
 * ready job, the oldest burial and the oldest result are the heads of lists.
 *
 * A topic is made when it is first needed, and goes when nothing needs it any more.
 */
#ifndef BI_TOPIC_H
#define BI_TOPIC_H

#include "core/job.h"

struct ready_entry {
    uint32_t priority;
    uint32_t job;
    uint64_t id;
};

#define BI_HEAP_NAME              ready
#define BI_HEAP_ENTRY             struct ready_entry
#define BI_HEAP_LESS(a, b)        bi_ready_before(a, b)
#define BI_HEAP_MOVED(ctx, e, at) (((uint32_t *)(ctx))[(e)->job] = (at)) /* ctx: core->slots */

static inline bool bi_ready_before(const struct ready_entry *a, const struct ready_entry *b)
{
    /* Without branches: with random priorities they could not be predicted. */
    return (a->priority < b->priority) | ((a->priority == b->priority) & (a->id < b->id));
}

#include "core/heap.h"

struct due_entry {
    int64_t due;
    uint64_t id;
    uint32_t job;
};

#define BI_HEAP_NAME              due
#define BI_HEAP_ENTRY             struct due_entry
#define BI_HEAP_LESS(a, b)        bi_due_before(a, b)
#define BI_HEAP_MOVED(ctx, e, at) (((uint32_t *)(ctx))[(e)->job] = (at)) /* ctx: core->slots */

static inline bool bi_due_before(const struct due_entry *a, const struct due_entry *b)
{
    return (a->due < b->due) | ((a->due == b->due) & (a->id < b->id));
}

#include "core/heap.h"

struct waiter_link;

/*
 * The delayed jobs that a long kick works on, apart from those that were delayed after it began:
 * so it finds the soonest of them without passing over younger ones.
 */
struct kick_set {
    struct kick_set *older;
    struct due_heap mono, wall;
    int64_t bound;  /* its jobs were delayed by then */
    uint32_t kicks; /* kicks under way with this bound; 0: to be merged with the younger jobs */
};

/* The most kick sets of a topic. */
#define BI_KICK_SETS_MAX 16

struct topic {
    uint32_t self;
    uint64_t hash;   /* of the name */
    uint64_t serial; /* rises with every topic made; the order of listing */
    struct ready_heap ready;
    struct due_heap due_mono, due_wall;
    struct kick_set *kick_sets;          /* delayed jobs that are not in due_*, youngest first */
    struct timer timer_mono, timer_wall; /* the soonest delayed job on each clock */
    struct timer timer_pause;
    struct timer age;   /* in core->ages: not after the oldest ready job came */
    struct timer serve; /* in core->serving: not after the number of the first in line */
    struct job_list lists[BIDE_STATE_DONE + 1];
    uint32_t members; /* jobs that belong to it, removed ones that the journal keeps, too */
    uint32_t urgent;
    struct waiter_link *waiting_head, *waiting_tail;
    uint64_t waiting;
    uint64_t references;
    uint32_t pins;        /* by what is under way and needs it to stay */
    uint64_t fair_turn;   /* when a fair reserve last took from it */
    int64_t paused_until; /* boot-time clock; 0: not paused; BI_NEVER: until resumed */
    int64_t pause;        /* for how long that was asked for; shown only */
    uint32_t undo;        /* the journal's newest entry for the pause; 0: none */
    uint64_t changed;     /* the last batch in which a job of it changed that existed before */
    bide_counters total;
    uint8_t name_size;
    char name[BIDE_TOPIC_MAX + 1];
};

/* By name; NULL if there is none. */
struct topic *bi_topic_find(struct core *core, bide_slice name);

/* Tells the cache that a topic is looked for soon, and where it is found, and then that it is looked for
 * next. */
void bi_topic_approach(const struct core *core, bide_slice later, bide_slice next);

/* By name, made if there is none. BIDE_OK, TOO_MANY_TOPICS or ENOMEM. Whoever makes one
 * and then does not use it calls bi_topic_cleanup(). */
int bi_topic_get(struct core *core, bide_slice name, struct topic **topic);

/* The same whatever max_topics says: what is stored must be loaded. */
int bi_topic_need(struct core *core, bide_slice name, struct topic **topic);

/* Room for one more member in every heap. */
bool bi_topic_reserve(struct core *core, struct topic *topic);

/* Lets the topic go if nothing needs it. */
void bi_topic_cleanup(struct core *core, struct topic *topic);

/* The same for a topic that was made for something which then failed, whatever topic_cleanup says. */
void bi_topic_unmake(struct core *core, struct topic *topic);

/* Keeps a topic, and lets it go again. */
static inline void bi_topic_pin(struct topic *topic)
{
    topic->pins++;
}

void bi_topic_unpin(struct core *core, struct topic *topic);

void bi_topics_free(struct core *core);

/* The first topic with that serial or a later one; NULL for none. */
struct topic *bi_topic_from(const struct core *core, uint64_t serial);

static inline bool bi_topic_open(const struct topic *topic)
{
    return topic->paused_until == 0 && topic->ready.count > 0;
}

/* The heap that a delayed job belongs into, and the one that it sits in. */
struct due_heap *bi_topic_heap_for(struct topic *topic, const struct job *job);
struct due_heap *bi_topic_heap_of(const struct core *core, struct topic *topic,
                                  const struct job *job);

/* The soonest entry of jobs delayed by a moment (BI_NEVER: of all) on one clock; NULL for none. */
const struct due_entry *bi_topic_soonest(const struct topic *topic, bool wall, int64_t bound);

/*
 * A kick of delayed jobs takes more than one slice: sets those delayed by *bound apart from what
 * follows. *bound may be lowered to that of another kick under way, if no job was delayed since.
 * BIDE_OK, ENOMEM, or EBUSY if too many kicks are under way; then nothing has changed.
 */
int bi_topic_begin_kick(struct core *core, struct topic *topic, int64_t *bound);
void bi_topic_end_kick(struct core *core, struct topic *topic, int64_t bound);

/* Moves up to budget jobs out of kick sets that no kick needs any more. */
void bi_topic_merge(struct core *core, struct topic *topic, unsigned budget);

/* Sets the timers to the soonest delayed jobs. */
void bi_topic_arm(struct core *core, struct topic *topic);

void bi_topic_pause(struct core *core, struct topic *topic, int64_t until);

/* Jobs that count for max_jobs_per_topic. */
uint64_t bi_topic_live(const struct topic *topic);

#endif
