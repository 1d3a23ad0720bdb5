/* SPDX-License-Identifier: MIT */
#include "scenario.h"

#include "../sim/rng.h"

#include <stdarg.h>

#define BODY_LIMIT 300
#define DELAYS     5000

struct generator {
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

static void emit(struct generator *generator, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void emit(struct generator *generator, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    bytes_text(&generator->turn->text, line);
}

static void answered(struct generator *generator, const char *replies)
{
    bytes_text(&generator->turn->replies, replies);
}

static uint64_t below(struct generator *generator, uint64_t n)
{
    return rng_below(&generator->rng, n);
}

static bool one_in(struct generator *generator, uint64_t n)
{
    return rng_one_in(&generator->rng, n);
}

static void mark(struct generator *generator, char kind, unsigned job)
{
    emit(generator, "%c%c%04x", MARK, kind, job & SCENARIO_JOBS);
}

static const char *some_tube(struct generator *generator)
{
    return tubes[below(generator, TUBES)];
}

/* Mostly a job that was put not long ago, often the one that this client holds. */
static void some_job(struct generator *generator)
{
    static const char *const odd[] = {"0", "77777777", "18446744073709551615"};
    uint64_t age = below(generator, one_in(generator, 4) ? 40 : 6);
    if (one_in(generator, 25) || generator->jobs == 0)
        emit(generator, "%s", odd[below(generator, 3)]);
    else
        mark(generator, one_in(generator, 2) ? 'H' : 'J',
             age < generator->jobs ? generator->jobs - 1 - (unsigned)age : 0);
}

static unsigned some_priority(struct generator *generator)
{
    static const unsigned odd[] = {1023, 1024, 4294967295U};
    return one_in(generator, 6) ? odd[below(generator, 3)] : (unsigned)below(generator, 4);
}

/* 0, or long and like no other of the story: which of two delayed jobs is first must not depend on
 * the fraction of a second in which they came. */
static unsigned some_delay(struct generator *generator)
{
    if (!one_in(generator, 4))
        return 0;
    return 1000 + 100 * (unsigned)(generator->delays++ * 1201ULL % DELAYS);
}

/* ---- put ---- */

static void some_body(struct generator *generator, size_t size)
{
    static const char *const like[] = {"quit\r\n", "\r\n", "delete 1\r\n", "put 0 0 1 1\r\n", "\n"};
    size_t made = 0;
    while (made < size) {
        const char *piece = like[below(generator, 5)];
        size_t piece_size = strlen(piece);
        if (one_in(generator, 4) && piece_size <= size - made) {
            bytes_text(&generator->turn->text, piece);
            made += piece_size;
            continue;
        }
        char byte = (char)below(generator, 256);
        if (byte == MARK)
            byte = 'x';
        bytes_add(&generator->turn->text, &byte, 1);
        made++;
    }
}

static size_t some_size(struct generator *generator)
{
    return one_in(generator, 15) ? BODY_LIMIT - below(generator, 3) : below(generator, 40);
}

static void emit_put(struct generator *generator, size_t size, const char *rest)
{
    unsigned priority = some_priority(generator);
    unsigned delay = some_delay(generator);
    emit(generator, "put %u %u %u %zu%s\r\n", priority, delay, 1000 + (unsigned)below(generator, 3),
         size, rest);
}

static void gen_put(struct generator *generator)
{
    size_t size = some_size(generator);
    if (generator->draining)
        mark(generator, 'B', 0);
    else
        mark(generator, 'P', generator->jobs);
    emit_put(generator, size, "");
    some_body(generator, size);
    emit(generator, "\r\n");
    answered(generator, ".");
    if (!generator->draining)
        generator->jobs++;
}

static void gen_put_too_big(struct generator *generator)
{
    size_t size = BODY_LIMIT + 1 + below(generator, 2000);
    emit_put(generator, size, one_in(generator, 3) ? " x" : "");
    some_body(generator, size + 2);
    answered(generator, ".");
}

static void gen_put_garbage(struct generator *generator)
{
    emit_put(generator, below(generator, 20), one_in(generator, 2) ? " " : "x");
    answered(generator, ".");
    if (one_in(generator, 2)) {
        emit(generator, "no command\r\n");
        answered(generator, ".");
    }
}

static void gen_put_bad_end(struct generator *generator)
{
    size_t size = below(generator, 20);
    mark(generator, 'B', 0);
    emit_put(generator, size, "");
    some_body(generator, size);
    emit(generator, "%s", one_in(generator, 2) ? "\r\r" : "ab");
    answered(generator, ".");
    if (one_in(generator, 2)) {
        emit(generator, "cd\r\n");
        answered(generator, ".");
    }
}

/* ---- the others ---- */

/* A reserve that may wait is the last of its turn but for lines that do nothing: when it is
 * answered in a turn of another client, it is a matter of chance which of the commands of that turn
 * come before what stands here, and which behind. */
static void gen_waiting_reserve(struct generator *generator)
{
    mark(generator, 'W', 0);
    emit(generator, "\r\n");
    answered(generator, "w");
    for (uint64_t i = below(generator, 3); i > 0; i--) {
        emit(generator, "%s\r\n", one_in(generator, 2) ? "nothing" : "use -");
        answered(generator, ".");
    }
    generator->may_wait = true;
}

static void gen_reserve(struct generator *generator)
{
    if (one_in(generator, 12)) {
        gen_waiting_reserve(generator);
        return;
    }
    emit(generator, "reserve-with-timeout 0\r\n");
    answered(generator, ".");
}

static void gen_job_command(struct generator *generator, const char *verb)
{
    emit(generator, "%s ", verb);
    some_job(generator);
    emit(generator, "%s\r\n", one_in(generator, 40) ? " " : "");
    answered(generator, ".");
}

static void gen_delete(struct generator *generator)
{
    generator->deleted = true;
    gen_job_command(generator, "delete");
}

static void gen_touch(struct generator *generator)
{
    gen_job_command(generator, "touch");
}

static void gen_peek(struct generator *generator)
{
    gen_job_command(generator, "peek");
}

static void gen_kick_job(struct generator *generator)
{
    gen_job_command(generator, "kick-job");
}

static void gen_reserve_job(struct generator *generator)
{
    gen_job_command(generator, "reserve-job");
}

static void gen_stats_job(struct generator *generator)
{
    gen_job_command(generator, "stats-job");
}

static void gen_release(struct generator *generator)
{
    unsigned priority = some_priority(generator);
    unsigned delay = some_delay(generator);
    emit(generator, "release ");
    some_job(generator);
    emit(generator, " %u %u%s\r\n", priority, delay, one_in(generator, 40) ? " 1" : "");
    answered(generator, ".");
}

static void gen_bury(struct generator *generator)
{
    emit(generator, "bury ");
    some_job(generator);
    emit(generator, " %u\r\n", some_priority(generator));
    answered(generator, ".");
}

const char *const scenario_kicks[] = {"0", "1", "2", "3", "-1", "4294967296", "1x", " 2", "+1"};
#define KICKS (sizeof scenario_kicks / sizeof scenario_kicks[0])

static void gen_kick(struct generator *generator)
{
    if (one_in(generator, 20)) {
        emit(generator, "kick %s\r\n", one_in(generator, 2) ? "x" : "");
    } else {
        emit(generator, "kick ");
        mark(generator, 'K', (unsigned)below(generator, one_in(generator, 6) ? KICKS : 4));
        emit(generator, "\r\n");
    }
    answered(generator, ".");
}

static void gen_peek_state(struct generator *generator)
{
    static const char *const states[] = {"ready", "delayed", "buried"};
    emit(generator, "peek-%s\r\n", states[below(generator, 3)]);
    answered(generator, ".");
}

static void gen_tube_command(struct generator *generator)
{
    static const char *const verbs[] = {"use", "watch", "watch", "ignore", "stats-tube"};
    static const char *const odd[] = {"-x", "", " a", "a b", "none"};
    const char *verb = verbs[below(generator, 5)];
    const char *tube = one_in(generator, 12) ? odd[below(generator, 5)] : some_tube(generator);
    emit(generator, "%s %s\r\n", verb, tube);
    answered(generator, ".");
}

/* Only the tube that is always there is paused for long: bided keeps others while they are. And a
 * pause of 0 lasts to the end of its microsecond in beanstalkd: nothing follows it in its turn. */
static void gen_pause(struct generator *generator)
{
    static const char *const lengths[] = {"0", "0", "0", "x", "-1", "", "0 0"};
    if (one_in(generator, 8))
        emit(generator, "pause-tube default 100000\r\n");
    else
        emit(generator, "pause-tube %s %s\r\n", some_tube(generator), lengths[below(generator, 7)]);
    answered(generator, ".");
    generator->last = true;
}

static void gen_list(struct generator *generator)
{
    static const char *const verbs[] = {"list-tubes", "list-tubes-watched", "list-tube-used"};
    uint64_t which = below(generator, 3);
    emit(generator, "%s\r\n", verbs[which]);
    answered(generator, which == 0 ? "t" : ".");
}

static void gen_stats(struct generator *generator)
{
    emit(generator, "stats\r\n");
    answered(generator, ".");
}

/* ---- garbage ---- */

/* A line that beanstalkd sees the end of: see the comment in scenario.h. */
static void gen_long_line(struct generator *generator)
{
    size_t size = 200 + below(generator, 600);
    if ((size + 1) % 224 == 0)
        size++;
    for (size_t i = 0; i < size; i++)
        emit(generator, "%c", (int)('a' + below(generator, 26)));
    emit(generator, "\r\n");
    answered(generator, ".");
}

/* Changes, adds or drops one byte of a command whose answer then is one reply still. The ids are
 * such that no byte makes them that of a job. */
static void gen_mutation(struct generator *generator)
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
    size_t size = (size_t)snprintf(line, sizeof line, "%s", lines[below(generator, 12)]);
    size_t at = below(generator, size);
    char byte = bytes[below(generator, sizeof bytes - 1)];
    switch (below(generator, 3)) {
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
    bytes_add(&generator->turn->text, line, size);
    emit(generator, "\r\n");
    answered(generator, ".");
}

/* ---- turns ---- */

static const struct telling {
    unsigned weight;
    void (*generate)(struct generator *generator);
} generators[] = {
    {22, gen_put},      {2, gen_put_too_big}, {2, gen_put_garbage},   {2, gen_put_bad_end},
    {20, gen_reserve},  {10, gen_delete},     {10, gen_release},      {10, gen_bury},
    {6, gen_kick},      {4, gen_kick_job},    {4, gen_reserve_job},   {3, gen_touch},
    {4, gen_peek},      {4, gen_peek_state},  {10, gen_tube_command}, {3, gen_pause},
    {3, gen_list},      {3, gen_stats},       {6, gen_stats_job},     {2, gen_mutation},
    {1, gen_long_line},
};
#define TELLINGS (sizeof generators / sizeof generators[0])

static void gen_command(struct generator *generator)
{
    unsigned all = 0;
    for (size_t i = 0; i < TELLINGS; i++)
        all += generators[i].weight;
    uint64_t chosen = below(generator, all);
    size_t i = 0;
    for (; chosen >= generators[i].weight; i++)
        chosen -= generators[i].weight;
    bool looks = generators[i].generate == gen_tube_command || generators[i].generate == gen_list ||
                 generators[i].generate == gen_stats;
    if (looks && generator->in_file && generator->deleted)
        gen_peek(generator);
    else
        generators[i].generate(generator);
}

/* The life of a job in one piece, by an id that is not known when it is sent. */
static void gen_life(struct generator *generator)
{
    unsigned job = generator->jobs;
    generator->deleted = true;
    gen_put(generator);
    if (generator->draining)
        return;
    for (uint64_t i = below(generator, 8); i > 0; i--) {
        static const char *const forms[] = {"reserve-job %s", "release %s 3 0", "bury %s 4",
                                            "kick-job %s",    "touch %s",       "delete %s",
                                            "stats-job %s",   "peek %s"};
        char id[MARK_SIZE + 1];
        char line[64];
        snprintf(id, sizeof id, "%cJ%04x", MARK, job & SCENARIO_JOBS);
        snprintf(line, sizeof line, "%s\r\n", forms[below(generator, 8)]);
        char *hole = strstr(line, "%s");
        bytes_add(&generator->turn->text, line, (size_t)(hole - line));
        bytes_text(&generator->turn->text, id);
        bytes_text(&generator->turn->text, hole + 2);
        answered(generator, ".");
    }
}

/* A put of which only a part is sent before the client closes. */
static void gen_half_put(struct generator *generator)
{
    size_t size = 1 + below(generator, 40);
    mark(generator, 'B', 0);
    emit_put(generator, size, "");
    some_body(generator, below(generator, size + 2));
}

/* Behind a reserve that waits nothing may stand when the client closes or quits: whether it is
 * executed then would be a matter of chance. */
static void gen_end(struct generator *generator)
{
    struct turn *turn = generator->turn;
    switch (generator->may_wait ? 0 : below(generator, 4)) {
    case 0:
        turn->end = TURN_HALF;
        break;
    case 1:
        turn->end = TURN_CLOSE;
        break;
    case 2:
        emit(generator, "quit\r\n");
        if (one_in(generator, 2))
            emit(generator, "delete 1\r\nkick 5\r\n");
        turn->end = TURN_QUIT;
        break;
    default:
        gen_half_put(generator);
        turn->end = one_in(generator, 2) ? TURN_CLOSE : TURN_HALF;
    }
}

static void gen_turn(struct generator *generator)
{
    struct turn *turn = generator->turn;
    turn->client = (int)below(generator, SCENARIO_CLIENTS);
    turn->cuts = one_in(generator, 3) ? rng_next(&generator->rng) | 1 : 0;
    generator->may_wait = generator->last = generator->deleted = false;
    if (one_in(generator, 8)) {
        gen_life(generator);
    } else {
        uint64_t commands = one_in(generator, 3) ? 1 + below(generator, 8) : 1;
        for (uint64_t i = 0; i < commands && !generator->may_wait && !generator->last; i++)
            gen_command(generator);
    }
    if (one_in(generator, 25))
        gen_end(generator);
}

void scenario_make(struct scenario *scenario, uint64_t seed, size_t turns, bool in_file)
{
    struct generator generator = {.rng = {seed}, .in_file = in_file};
    scenario->turns = calloc(turns, sizeof *scenario->turns);
    scenario->count = turns;
    if (!scenario->turns) {
        perror("memory");
        exit(2);
    }
    size_t drain_at = one_in(&generator, 8) ? turns - turns / 8 - 1 : turns;
    for (size_t i = 0; i < turns; i++) {
        generator.turn = &scenario->turns[i];
        if (i == drain_at) {
            generator.turn->end = TURN_DRAIN;
            generator.draining = true;
        } else {
            gen_turn(&generator);
        }
    }
}

void scenario_done(struct scenario *scenario)
{
    for (size_t i = 0; i < scenario->count; i++) {
        bytes_done(&scenario->turns[i].text);
        bytes_done(&scenario->turns[i].replies);
    }
    free(scenario->turns);
    *scenario = (struct scenario){NULL, 0};
}
