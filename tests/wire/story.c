/* SPDX-License-Identifier: MIT */
#include "story.h"

#include "../sim/rng.h"

#include <stdarg.h>

#define BODY_LIMIT 300
#define DELAYS     5000

struct teller {
    struct rng rng;
    struct turn *turn;
    unsigned jobs;   /* how many successful puts there were */
    unsigned delays; /* how many delays were given out */
    bool may_wait;   /* this turn has its waiting reserve, */
    bool last;       /* or another command behind which none may stand */
    bool draining;
    bool in_file;
    bool deleted; /* this turn has a delete */
};

static const char *const tubes[] = {"default", "a", "b", "c/d;e", "long.name-of_a(tube)$+"};
#define TUBES (sizeof tubes / sizeof tubes[0])

static void say(struct teller *teller, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct teller *teller, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    bytes_text(&teller->turn->text, line);
}

static void answered(struct teller *teller, const char *replies)
{
    bytes_text(&teller->turn->replies, replies);
}

static uint64_t below(struct teller *teller, uint64_t n)
{
    return rng_below(&teller->rng, n);
}

static bool one_in(struct teller *teller, uint64_t n)
{
    return rng_one_in(&teller->rng, n);
}

static void mark(struct teller *teller, char kind, unsigned job)
{
    say(teller, "%c%c%04x", MARK, kind, job & STORY_JOBS);
}

static const char *some_tube(struct teller *teller)
{
    return tubes[below(teller, TUBES)];
}

/* Mostly a job that was put not long ago, often the one that this client holds. */
static void some_job(struct teller *teller)
{
    static const char *const odd[] = {"0", "77777777", "18446744073709551615"};
    uint64_t age = below(teller, one_in(teller, 4) ? 40 : 6);
    if (one_in(teller, 25) || teller->jobs == 0)
        say(teller, "%s", odd[below(teller, 3)]);
    else
        mark(teller, one_in(teller, 2) ? 'H' : 'J',
             age < teller->jobs ? teller->jobs - 1 - (unsigned)age : 0);
}

static unsigned some_priority(struct teller *teller)
{
    static const unsigned odd[] = {1023, 1024, 4294967295U};
    return one_in(teller, 6) ? odd[below(teller, 3)] : (unsigned)below(teller, 4);
}

/* 0, or long and like no other of the story: which of two delayed jobs is first must not depend on
 * the fraction of a second in which they came. */
static unsigned some_delay(struct teller *teller)
{
    if (!one_in(teller, 4))
        return 0;
    return 1000 + 100 * (unsigned)(teller->delays++ * 1201ULL % DELAYS);
}

/* ---- put ---- */

static void some_body(struct teller *teller, size_t size)
{
    static const char *const like[] = {"quit\r\n", "\r\n", "delete 1\r\n", "put 0 0 1 1\r\n", "\n"};
    size_t made = 0;
    while (made < size) {
        const char *piece = like[below(teller, 5)];
        size_t piece_size = strlen(piece);
        if (one_in(teller, 4) && piece_size <= size - made) {
            bytes_text(&teller->turn->text, piece);
            made += piece_size;
            continue;
        }
        char byte = (char)below(teller, 256);
        if (byte == MARK)
            byte = 'x';
        bytes_add(&teller->turn->text, &byte, 1);
        made++;
    }
}

static size_t some_size(struct teller *teller)
{
    return one_in(teller, 15) ? BODY_LIMIT - below(teller, 3) : below(teller, 40);
}

static void say_put(struct teller *teller, size_t size, const char *rest)
{
    unsigned priority = some_priority(teller);
    unsigned delay = some_delay(teller);
    say(teller, "put %u %u %u %zu%s\r\n", priority, delay, 1000 + (unsigned)below(teller, 3), size,
        rest);
}

static void tell_put(struct teller *teller)
{
    size_t size = some_size(teller);
    if (teller->draining)
        mark(teller, 'B', 0);
    else
        mark(teller, 'P', teller->jobs);
    say_put(teller, size, "");
    some_body(teller, size);
    say(teller, "\r\n");
    answered(teller, ".");
    if (!teller->draining)
        teller->jobs++;
}

static void tell_put_too_big(struct teller *teller)
{
    size_t size = BODY_LIMIT + 1 + below(teller, 2000);
    say_put(teller, size, one_in(teller, 3) ? " x" : "");
    some_body(teller, size + 2);
    answered(teller, ".");
}

static void tell_put_garbage(struct teller *teller)
{
    say_put(teller, below(teller, 20), one_in(teller, 2) ? " " : "x");
    answered(teller, ".");
    if (one_in(teller, 2)) {
        say(teller, "no command\r\n");
        answered(teller, ".");
    }
}

static void tell_put_bad_end(struct teller *teller)
{
    size_t size = below(teller, 20);
    mark(teller, 'B', 0);
    say_put(teller, size, "");
    some_body(teller, size);
    say(teller, "%s", one_in(teller, 2) ? "\r\r" : "ab");
    answered(teller, ".");
    if (one_in(teller, 2)) {
        say(teller, "cd\r\n");
        answered(teller, ".");
    }
}

/* ---- the others ---- */

/* A reserve that may wait is the last of its turn but for lines that do nothing: when it is answered
 * in a turn of another client, it is a matter of chance which of the commands of that turn come
 * before what stands here, and which behind. */
static void tell_waiting_reserve(struct teller *teller)
{
    mark(teller, 'W', 0);
    say(teller, "\r\n");
    answered(teller, "w");
    for (uint64_t i = below(teller, 3); i > 0; i--) {
        say(teller, "%s\r\n", one_in(teller, 2) ? "nothing" : "use -");
        answered(teller, ".");
    }
    teller->may_wait = true;
}

static void tell_reserve(struct teller *teller)
{
    if (one_in(teller, 12)) {
        tell_waiting_reserve(teller);
        return;
    }
    say(teller, "reserve-with-timeout 0\r\n");
    answered(teller, ".");
}

static void tell_job_command(struct teller *teller, const char *verb)
{
    say(teller, "%s ", verb);
    some_job(teller);
    say(teller, "%s\r\n", one_in(teller, 40) ? " " : "");
    answered(teller, ".");
}

static void tell_delete(struct teller *teller)
{
    teller->deleted = true;
    tell_job_command(teller, "delete");
}

static void tell_touch(struct teller *teller)
{
    tell_job_command(teller, "touch");
}

static void tell_peek(struct teller *teller)
{
    tell_job_command(teller, "peek");
}

static void tell_kick_job(struct teller *teller)
{
    tell_job_command(teller, "kick-job");
}

static void tell_reserve_job(struct teller *teller)
{
    tell_job_command(teller, "reserve-job");
}

static void tell_stats_job(struct teller *teller)
{
    tell_job_command(teller, "stats-job");
}

static void tell_release(struct teller *teller)
{
    unsigned priority = some_priority(teller);
    unsigned delay = some_delay(teller);
    say(teller, "release ");
    some_job(teller);
    say(teller, " %u %u%s\r\n", priority, delay, one_in(teller, 40) ? " 1" : "");
    answered(teller, ".");
}

static void tell_bury(struct teller *teller)
{
    say(teller, "bury ");
    some_job(teller);
    say(teller, " %u\r\n", some_priority(teller));
    answered(teller, ".");
}

const char *const story_kicks[] = {"0", "1", "2", "3", "-1", "4294967296", "1x", " 2", "+1"};
#define KICKS (sizeof story_kicks / sizeof story_kicks[0])

static void tell_kick(struct teller *teller)
{
    if (one_in(teller, 20)) {
        say(teller, "kick %s\r\n", one_in(teller, 2) ? "x" : "");
    } else {
        say(teller, "kick ");
        mark(teller, 'K', (unsigned)below(teller, one_in(teller, 6) ? KICKS : 4));
        say(teller, "\r\n");
    }
    answered(teller, ".");
}

static void tell_peek_state(struct teller *teller)
{
    static const char *const states[] = {"ready", "delayed", "buried"};
    say(teller, "peek-%s\r\n", states[below(teller, 3)]);
    answered(teller, ".");
}

static void tell_tube_command(struct teller *teller)
{
    static const char *const verbs[] = {"use", "watch", "watch", "ignore", "stats-tube"};
    static const char *const odd[] = {"-x", "", " a", "a b", "none"};
    const char *verb = verbs[below(teller, 5)];
    const char *tube = one_in(teller, 12) ? odd[below(teller, 5)] : some_tube(teller);
    say(teller, "%s %s\r\n", verb, tube);
    answered(teller, ".");
}

/* Only the tube that is always there is paused for long: bided keeps others while they are. And a
 * pause of 0 lasts to the end of its microsecond in beanstalkd: nothing follows it in its turn. */
static void tell_pause(struct teller *teller)
{
    static const char *const lengths[] = {"0", "0", "0", "x", "-1", "", "0 0"};
    if (one_in(teller, 8))
        say(teller, "pause-tube default 100000\r\n");
    else
        say(teller, "pause-tube %s %s\r\n", some_tube(teller), lengths[below(teller, 7)]);
    answered(teller, ".");
    teller->last = true;
}

static void tell_list(struct teller *teller)
{
    static const char *const verbs[] = {"list-tubes", "list-tubes-watched", "list-tube-used"};
    uint64_t which = below(teller, 3);
    say(teller, "%s\r\n", verbs[which]);
    answered(teller, which == 0 ? "t" : ".");
}

static void tell_stats(struct teller *teller)
{
    say(teller, "stats\r\n");
    answered(teller, ".");
}

/* ---- garbage ---- */

/* A line that beanstalkd sees the end of: see the comment in story.h. */
static void tell_long_line(struct teller *teller)
{
    size_t size = 200 + below(teller, 600);
    if ((size + 1) % 224 == 0)
        size++;
    for (size_t i = 0; i < size; i++)
        say(teller, "%c", (int)('a' + below(teller, 26)));
    say(teller, "\r\n");
    answered(teller, ".");
}

/* Changes, adds or drops one byte of a command whose answer then is one reply still. The ids are
 * such that no byte makes them that of a job. */
static void tell_mutation(struct teller *teller)
{
    static const char *const lines[] = {"delete 77777777",
                                        "touch 77777777",
                                        "bury 77777777 7",
                                        "kick-job 77777777",
                                        "stats-job 77777777",
                                        "use a",
                                        "watch b",
                                        "ignore a",
                                        "peek 77777777",
                                        "list-tubes-watched",
                                        "peek-buried",
                                        "kick 1"};
    static const char bytes[] = "x0 -\t\n\0\x80/9";
    char line[64];
    size_t size = (size_t)snprintf(line, sizeof line, "%s", lines[below(teller, 12)]);
    size_t at = below(teller, size);
    char byte = bytes[below(teller, sizeof bytes - 1)];
    switch (below(teller, 3)) {
    case 0:
        line[at] = byte;
        break;
    case 1:
        memmove(line + at + 1, line + at, size - at);
        line[at] = byte;
        size++;
        break;
    default:
        memmove(line + at, line + at + 1, size - at - 1);
        size--;
    }
    bytes_add(&teller->turn->text, line, size);
    say(teller, "\r\n");
    answered(teller, ".");
}

/* ---- turns ---- */

static const struct telling {
    unsigned weight;
    void (*tell)(struct teller *teller);
} tellings[] = {
    {22, tell_put},      {2, tell_put_too_big}, {2, tell_put_garbage},   {2, tell_put_bad_end},
    {20, tell_reserve},  {10, tell_delete},     {10, tell_release},      {10, tell_bury},
    {6, tell_kick},      {4, tell_kick_job},    {4, tell_reserve_job},   {3, tell_touch},
    {4, tell_peek},      {4, tell_peek_state},  {10, tell_tube_command}, {3, tell_pause},
    {3, tell_list},      {3, tell_stats},       {6, tell_stats_job},     {2, tell_mutation},
    {1, tell_long_line},
};
#define TELLINGS (sizeof tellings / sizeof tellings[0])

static void tell_command(struct teller *teller)
{
    unsigned all = 0;
    for (size_t i = 0; i < TELLINGS; i++)
        all += tellings[i].weight;
    uint64_t chosen = below(teller, all);
    size_t i = 0;
    for (; chosen >= tellings[i].weight; i++)
        chosen -= tellings[i].weight;
    bool looks = tellings[i].tell == tell_tube_command || tellings[i].tell == tell_list ||
                 tellings[i].tell == tell_stats;
    if (looks && teller->in_file && teller->deleted)
        tell_peek(teller);
    else
        tellings[i].tell(teller);
}

/* The life of a job in one piece, by an id that is not known when it is sent. */
static void tell_life(struct teller *teller)
{
    unsigned job = teller->jobs;
    teller->deleted = true;
    tell_put(teller);
    if (teller->draining)
        return;
    for (uint64_t i = below(teller, 8); i > 0; i--) {
        static const char *const forms[] = {"reserve-job %s", "release %s 3 0", "bury %s 4",
                                            "kick-job %s",    "touch %s",       "delete %s",
                                            "stats-job %s",   "peek %s"};
        char id[MARK_SIZE + 1];
        char line[64];
        snprintf(id, sizeof id, "%cJ%04x", MARK, job & STORY_JOBS);
        snprintf(line, sizeof line, "%s\r\n", forms[below(teller, 8)]);
        char *hole = strstr(line, "%s");
        bytes_add(&teller->turn->text, line, (size_t)(hole - line));
        bytes_text(&teller->turn->text, id);
        bytes_text(&teller->turn->text, hole + 2);
        answered(teller, ".");
    }
}

/* A put of which only a part is sent before the client closes. */
static void tell_half_put(struct teller *teller)
{
    size_t size = 1 + below(teller, 40);
    mark(teller, 'B', 0);
    say_put(teller, size, "");
    some_body(teller, below(teller, size + 2));
}

/* Behind a reserve that waits nothing may stand when the client closes or quits: whether it is
 * executed then would be a matter of chance. */
static void tell_end(struct teller *teller)
{
    struct turn *turn = teller->turn;
    switch (teller->may_wait ? 0 : below(teller, 4)) {
    case 0:
        turn->end = TURN_HALF;
        break;
    case 1:
        turn->end = TURN_CLOSE;
        break;
    case 2:
        say(teller, "quit\r\n");
        if (one_in(teller, 2))
            say(teller, "delete 1\r\nkick 5\r\n");
        turn->end = TURN_QUIT;
        break;
    default:
        tell_half_put(teller);
        turn->end = one_in(teller, 2) ? TURN_CLOSE : TURN_HALF;
    }
}

static void tell_turn(struct teller *teller)
{
    struct turn *turn = teller->turn;
    turn->client = (int)below(teller, STORY_CLIENTS);
    turn->cuts = one_in(teller, 3) ? rng_next(&teller->rng) | 1 : 0;
    teller->may_wait = teller->last = teller->deleted = false;
    if (one_in(teller, 8)) {
        tell_life(teller);
    } else {
        uint64_t commands = one_in(teller, 3) ? 1 + below(teller, 8) : 1;
        for (uint64_t i = 0; i < commands && !teller->may_wait && !teller->last; i++)
            tell_command(teller);
    }
    if (one_in(teller, 25))
        tell_end(teller);
}

void story_make(struct story *story, uint64_t seed, size_t turns, bool in_file)
{
    struct teller teller = {.rng = {seed}, .in_file = in_file};
    story->turns = calloc(turns, sizeof *story->turns);
    story->count = turns;
    if (!story->turns) {
        perror("memory");
        exit(2);
    }
    size_t drain_at = one_in(&teller, 8) ? turns - turns / 8 - 1 : turns;
    for (size_t i = 0; i < turns; i++) {
        teller.turn = &story->turns[i];
        if (i == drain_at) {
            teller.turn->end = TURN_DRAIN;
            teller.draining = true;
        } else {
            tell_turn(&teller);
        }
    }
}

void story_done(struct story *story)
{
    for (size_t i = 0; i < story->count; i++) {
        bytes_done(&story->turns[i].text);
        bytes_done(&story->turns[i].replies);
    }
    free(story->turns);
    *story = (struct story){NULL, 0};
}
