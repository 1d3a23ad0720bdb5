/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_stats - the verbs that reply with YAML: stats*, list-tubes* and list-jobs.
 *
 * The keys and their order are those of beanstalkd, since monitoring tools parse them.
 *
 * Cost       A document is built in memory, because its size comes first on the wire. Lists are
 *            built page by page and count in the connection's memory; other connections are served
 *            between two pages.
 */
#include "server/beanstalk/beanstalk.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TOPICS_PAGE 200
#define BINLOG_SIZE 10485760 /* what beanstalkd reports without a binlog */

/* The release of beanstalkd whose behaviour this server has. Clients compare it as a version or a
 * number, so nothing may be appended. */
#define BEANSTALKD_VERSION "1.13"

/* ---- documents ---- */

void bi_beanstalk_stats_begin_document(struct output *text)
{
    bi_output_init(text);
    bi_output_text(text, "---\n");
}

void bi_beanstalk_stats_end_document(struct beanstalk_conn *conn, struct output *text)
{
    struct output *output = &conn->base.output;
    /* An incomplete document must close the connection, not reach the client. */
    output->broken |= text->broken;
    bi_output_format(output, "OK %zu\r\n", text->size);
    bi_output_add(output, bi_output_bytes(text), text->size);
    bi_output_add(output, "\r\n", 2);
    bi_output_done(text);
}

static void write_count(struct output *text, const char *name, uint64_t value)
{
    bi_output_text(text, name);
    bi_output_add(text, ": ", 2);
    bi_output_number(text, value);
    bi_output_add(text, "\n", 1);
}

static void write_jobs(struct output *text, const bide_counts *jobs)
{
    write_count(text, "current-jobs-urgent", jobs->urgent);
    write_count(text, "current-jobs-ready", jobs->ready);
    write_count(text, "current-jobs-reserved", jobs->reserved);
    write_count(text, "current-jobs-delayed", jobs->delayed);
    write_count(text, "current-jobs-buried", jobs->buried);
}

/* Writes the whole seconds left, as beanstalkd reports them: a second that has begun does not
 * count. */
static void write_seconds_left(struct output *text, const char *name, int64_t left_ms)
{
    write_count(text, name, (uint64_t)(left_ms <= 0 ? 0 : (left_ms - 1) / 1000));
}

/* ---- stats ---- */

static const enum verb counted_verbs[] = {
    VERB_PUT,
    VERB_PEEK,
    VERB_PEEK_READY,
    VERB_PEEK_DELAYED,
    VERB_PEEK_BURIED,
    VERB_RESERVE,
    VERB_RESERVE_WITH_TIMEOUT,
    VERB_DELETE,
    VERB_RELEASE,
    VERB_USE,
    VERB_WATCH,
    VERB_IGNORE,
    VERB_BURY,
    VERB_KICK,
    VERB_TOUCH,
    VERB_STATS,
    VERB_STATS_JOB,
    VERB_STATS_TUBE,
    VERB_LIST_TUBES,
    VERB_LIST_TUBE_USED,
    VERB_LIST_TUBES_WATCHED,
    VERB_PAUSE_TUBE,
};

static void write_process(struct output *text, const struct server *server)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    write_count(text, "pid", (uint64_t)getpid());
    bi_output_text(text, "version: \"" BEANSTALKD_VERSION "\"\n");
    bi_output_format(text, "rusage-utime: %ld.%06ld\n", (long)usage.ru_utime.tv_sec,
                     (long)usage.ru_utime.tv_usec);
    bi_output_format(text, "rusage-stime: %ld.%06ld\n", (long)usage.ru_stime.tv_sec,
                     (long)usage.ru_stime.tv_usec);
    write_count(text, "uptime", (uint64_t)(bi_clock_boot() - server->started) / 1000000);
}

static void write_host(struct output *text, const struct server *server, bool draining)
{
    struct utsname name = {0};
    uname(&name);
    bi_output_format(text, "draining: %s\nid: %s\n", draining ? "true" : "false", server->id);
    bi_output_format(text, "hostname: \"%s\"\nos: \"%s\"\nplatform: \"%s\"\n", name.nodename,
                     name.version, name.machine);

    /* Own keys follow those of beanstalkd: some clients rely on their positions. */
    bi_output_text(text, "bide-version: \"" BIDE_VERSION "\"\n");
}

static void write_stats(struct request *request)
{
    const struct server *server = request->base.server;
    const struct beanstalk *beanstalk = request->beanstalk;
    const bide_stats *stats = &request->stats;
    struct output text;

    bi_beanstalk_stats_begin_document(&text);
    write_jobs(&text, &stats->jobs);
    for (size_t i = 0; i < sizeof(counted_verbs) / sizeof(counted_verbs[0]); i++) {
        bi_output_text(&text, "cmd-");
        write_count(&text, bi_beanstalk_parse_verb_name(counted_verbs[i]),
                    beanstalk->commands[counted_verbs[i]]);
    }
    write_count(&text, "job-timeouts", stats->total.timeouts);
    write_count(&text, "total-jobs", stats->total.puts);
    write_count(&text, "max-job-size", server->options->max_job_size);
    write_count(&text, "current-tubes", stats->topics);
    write_count(&text, "current-connections", server->connections);
    write_count(&text, "current-producers", beanstalk->producers);
    write_count(&text, "current-workers", beanstalk->workers);
    write_count(&text, "current-waiting", stats->waiting);
    write_count(&text, "total-connections", server->total_connections);
    write_process(&text, server);
    /* There is no binlog, but clients expect the keys. */
    bi_output_text(&text, "binlog-oldest-index: 0\nbinlog-current-index: 0\n"
                          "binlog-records-migrated: 0\nbinlog-records-written: 0\n");
    write_count(&text, "binlog-max-size", BINLOG_SIZE);
    write_host(&text, server, stats->draining);
    bi_beanstalk_stats_end_document(request->conn, &text);
}

/* Blocking: the counters of the server are read at the reply. Later commands must not count. */
const char *bi_beanstalk_stats_server(struct request *request, const struct command *command)
{
    (void)command;
    request->write = write_stats;
    request->op.stats = (bide_stats_args){&request->stats};
    return NULL;
}

/* ---- stats-tube ---- */

/* Only with a limit: otherwise the keys are those of beanstalkd. */
static void write_limits(struct output *text, const bide_topic_stats *topic)
{
    write_count(text, "concurrency", topic->concurrency);
    write_count(text, "rate", topic->rate);
    write_count(text, "rate-period-ms", (uint64_t)topic->rate_period_ms);
    bi_output_format(text, "limited: %s\n", bide_limit_name(topic->limited));
    write_count(text, "limit-left-ms", (uint64_t)topic->limit_left_ms);
}

static void write_stats_tube(struct request *request)
{
    const bide_topic_stats *topic = &request->topic;
    struct output text;

    /* The queue counts users and watchers together. No entry: no connection uses the tube. */
    bide_slice name = {topic->name, strlen(topic->name)};
    const struct tube *tube = bi_tubes_find(&request->beanstalk->tubes, name);
    bi_beanstalk_stats_begin_document(&text);
    bi_output_format(&text, "name: \"%s\"\n", topic->name);
    write_jobs(&text, &topic->jobs);
    write_count(&text, "total-jobs", topic->total.puts);
    write_count(&text, "current-using", tube == NULL ? 0 : tube->users);
    write_count(&text, "current-watching", tube == NULL ? 0 : tube->watchers);
    write_count(&text, "current-waiting", topic->waiting);
    write_count(&text, "cmd-delete", topic->total.deletes);
    write_count(&text, "cmd-pause-tube", topic->total.pauses);
    write_count(&text, "pause", (uint64_t)(topic->paused ? topic->pause_ms : 0) / 1000);
    write_seconds_left(&text, "pause-time-left", topic->pause_left_ms);
    if (topic->concurrency != 0 || topic->rate != 0)
        write_limits(&text, topic);
    bi_beanstalk_stats_end_document(request->conn, &text);
}

/* Blocking: users and watchers are read at the reply, too. */
const char *bi_beanstalk_stats_tube(struct request *request, const struct command *command)
{
    request->write = write_stats_tube;
    request->op.topic_stats = (bide_topic_stats_args){command->name, &request->topic};
    return NULL;
}

/* ---- stats-job ---- */

static void write_stats_job(struct request *request)
{
    const bide_job *job = &request->job;
    bool timed = job->state == BIDE_STATE_RESERVED || job->state == BIDE_STATE_DELAYED;
    struct output text;

    bi_beanstalk_stats_begin_document(&text);
    bi_output_format(&text, "id: %llu\ntube: \"%s\"\nstate: %s\n", (unsigned long long)job->id,
                     job->topic, bide_state_name(job->state));
    write_count(&text, "pri", job->priority);
    write_count(&text, "age", (uint64_t)job->age_ms / 1000);
    write_count(&text, "delay", (uint64_t)job->delay_ms / 1000);
    write_count(&text, "ttr", (uint64_t)job->ttr_ms / 1000);
    write_seconds_left(&text, "time-left", timed ? job->left_ms : 0);
    write_count(&text, "file", 0); /* the binlog file; there is none */
    write_count(&text, "reserves", job->reserves);
    write_count(&text, "timeouts", job->timeouts);
    write_count(&text, "releases", job->releases);
    write_count(&text, "buries", job->buries);
    write_count(&text, "kicks", job->kicks);
    bi_beanstalk_stats_end_document(request->conn, &text);
    bide_job_clear(&request->job);
}

const char *bi_beanstalk_stats_job(struct request *request, const struct command *command)
{
    request->write = write_stats_job;
    request->op.query = (bide_query_args){.id = command->id, .job = &request->job};
    return NULL;
}

/* ---- memory of listings ---- */

/*
 * Counts a listing in the connection's memory. While the queue is loading, every connection may
 * have a listing that waits, so the buffers of its page count from the start. False: all
 * connections together have too much; nothing is counted then.
 */
static bool reserve_memory(struct beanstalk_conn *conn, size_t bytes, const char *verb)
{
    char sentence[100];

    /* Count first: the check then includes this listing. BODY_LARGE leaves a quarter to others. */
    conn->listing_bytes = bytes;
    bi_conn_update_memory(&conn->base);
    if (bi_server_has_memory(conn->base.server, &conn->base, BODY_LARGE, 0))
        return true;

    conn->listing_bytes = 0;
    bi_conn_update_memory(&conn->base);
    snprintf(sentence, sizeof(sentence), "%s: clients have most of max_client_bytes in buffers",
             verb);
    bi_beanstalk_verb_log_limit(conn->beanstalk, "OUT_OF_MEMORY", sentence);
    return false;
}

static void release_memory(struct beanstalk_conn *conn)
{
    conn->listing_bytes = 0;
    bi_conn_update_memory(&conn->base);
}

/* Allocates the page of a listing. The request blocks, so a connection has one at a time. */
static bool allocate_page(struct request *request, size_t size, const char *verb)
{
    if (reserve_memory(request->conn, size, verb)) {
        request->extra = calloc(1, size);
        if (request->extra == NULL)
            release_memory(request->conn);
    }
    return request->extra != NULL;
}

/* ---- list-tubes ---- */

/* The size of the document precedes it, so all names are gathered first. They are stored in parts
 * that the output sends without a copy: copying millions of names at once would block the loop. */
#define PART_SIZE ((size_t)32 << 10)

struct listing {
    struct output text;  /* the names that are not yet in a part */
    struct output parts; /* as bodies */
    char cursor[BIDE_CURSOR_SIZE];
    bide_topic_stats topics[TOPICS_PAGE];
};

static void free_listing(void *extra)
{
    struct listing *listing = extra;
    bi_output_done(&listing->text);
    bi_output_done(&listing->parts);
    free(listing);
}

/* Moves the text to a new part. False: out of memory, and the listing cannot be completed. */
static bool finish_part(struct listing *listing)
{
    struct output *text = &listing->text;
    bide_buf *part = text->broken ? NULL : bide_buf_new(bi_output_bytes(text), text->size);
    if (part == NULL)
        return false;

    bi_output_body(&listing->parts, part, bide_buf_data(part), bide_buf_size(part));
    bide_buf_unref(part);
    text->size = 0;
    return !listing->parts.broken;
}

static void set_page_args(struct request *request)
{
    struct listing *listing = request->extra;
    request->op.topics = (bide_topics_args){
        .cursor = listing->cursor, .topics = listing->topics, .topic_max = TOPICS_PAGE};
}

static void write_name(struct output *text, const char *name)
{
    bi_output_add(text, "- ", 2);
    bi_output_text(text, name);
    bi_output_add(text, "\n", 1);
}

/* Small parts were copied to the bytes of the output, larger ones are bodies. */
static void reply_listing(struct beanstalk_conn *conn, struct listing *listing)
{
    struct output *output = &conn->base.output;
    struct output *parts = &listing->parts;

    bi_output_format(output, "OK %zu\r\n", bi_output_left(parts));
    for (size_t i = 0; i < parts->body_count; i++) {
        bide_buf *part = parts->bodies[i].buf;
        bi_output_body(output, part, bide_buf_data(part), bide_buf_size(part));
    }
    bi_output_add(output, bi_output_bytes(parts), parts->size);
    bi_output_add(output, "\r\n", 2);
}

static bool reply_list_tubes(struct request *request)
{
    struct listing *listing = request->extra;
    struct beanstalk_conn *conn = request->conn;
    /* What the page was counted with is replaced by what the listing really takes. */
    release_memory(conn);

    if (request->op.status != BIDE_OK)
        return bi_beanstalk_verb_reject(request);

    for (size_t i = 0; i < request->op.topics.count; i++)
        write_name(&listing->text, listing->topics[i].name);

    bool ends = listing->cursor[0] == 0;
    /* The last page ends a part in any case, others only when it is large enough. */
    bool fits = (!ends && listing->text.size < PART_SIZE) || finish_part(listing);

    if (fits && ends) {
        reply_listing(conn, listing);
        return true;
    }

    size_t memory =
        sizeof(*listing) + bi_output_memory(&listing->text) + bi_output_left(&listing->parts);
    if (!fits || !reserve_memory(conn, memory, "list-tubes")) {
        bi_output_text(&conn->base.output, "OUT_OF_MEMORY\r\n");
        return true;
    }

    set_page_args(request);
    bi_request_yield(request); /* others first: there may be thousands of pages */
    return false;
}

const char *bi_beanstalk_stats_list_tubes(struct request *request, const struct command *command)
{
    (void)command;
    if (!allocate_page(request, sizeof(struct listing), "list-tubes"))
        return "OUT_OF_MEMORY\r\n";

    struct listing *listing = request->extra;
    request->reply = reply_list_tubes;
    request->free_extra = free_listing; /* also if the connection closes while a page is pending */
    bi_beanstalk_stats_begin_document(&listing->text);
    bi_output_init(&listing->parts);
    set_page_args(request);
    return NULL;
}

static bool reply_watched(struct request *request)
{
    const struct session *session = &request->conn->session;
    struct output text;

    bi_beanstalk_stats_begin_document(&text);
    for (uint32_t i = 0; i < session->watched_count; i++)
        write_name(&text, session->watched[i]->name);
    bi_beanstalk_stats_end_document(request->conn, &text);
    return true;
}

void bi_beanstalk_stats_list_watched(struct beanstalk_conn *conn, const struct command *command)
{
    (void)command;
    struct request *request = bi_beanstalk_verb_new_request(conn, BIDE_OP_NONE, reply_watched);
    if (request == NULL)
        return;

    request->blocking = true; /* a later watch or ignore must not change the list */
    bi_request_enqueue_completed(request);
}

/* ---- list-jobs ---- */

struct job_listing {
    char cursor[BIDE_CURSOR_SIZE];
    bide_job jobs[];
};

void bi_beanstalk_stats_write_value(struct output *text, const char *name, const void *data,
                                    size_t size)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *bytes = data;
    size_t plain = 0; /* start of the bytes that need no escape */

    bi_output_format(text, "%s: \"", name);
    for (size_t i = 0; i < size; i++) {
        bool quoted = bytes[i] == '"' || bytes[i] == '\\';
        if (!quoted && bytes[i] >= 32 && bytes[i] < 127)
            continue;

        /* An escaped quote is the first byte of the next plain run; other bytes are replaced. */
        bi_output_add(text, bytes + plain, i - plain);
        plain = quoted ? i : i + 1;
        if (quoted)
            bi_output_add(text, "\\", 1);
        else
            bi_output_add(text, (char[]){'\\', 'x', hex[bytes[i] >> 4], hex[bytes[i] & 15]}, 4);
    }

    bi_output_add(text, bytes + plain, size - plain);
    bi_output_add(text, "\"\n", 2);
}

static void write_job(struct output *text, const bide_job *job)
{
    bi_output_format(text, "- id: %llu\n  tube: \"%s\"\n  state: %s\n", (unsigned long long)job->id,
                     job->topic, bide_state_name(job->state));

    const struct {
        const char *name;
        int64_t value;
    } figures[] = {
        {"pri", job->priority},      {"bytes", (int64_t)job->body_size},
        {"age-ms", job->age_ms},     {"ttr-ms", job->ttr_ms},
        {"left-ms", job->left_ms},   {"reserves", job->reserves},
        {"timeouts", job->timeouts}, {"releases", job->releases},
        {"fails", job->fails},       {"buries", job->buries},
        {"kicks", job->kicks},
    };

    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        bi_output_format(text, "  %s: %lld\n", figures[i].name, (long long)figures[i].value);
    if (job->key != NULL)
        bi_beanstalk_stats_write_value(text, "  key", job->key, job->key_size);
    if (job->last_error != NULL)
        bi_beanstalk_stats_write_value(text, "  error", job->last_error, job->last_error_size);
    if (job->holder != NULL)
        bi_beanstalk_stats_write_value(text, "  holder", job->holder, job->holder_size);
}

static bool reply_list_jobs(struct request *request)
{
    /* The page is freed with the request, whatever the outcome. */
    release_memory(request->conn);
    return bi_beanstalk_verb_reply(request);
}

static void write_list_jobs(struct request *request)
{
    struct job_listing *listing = request->extra;
    struct output text;

    bi_beanstalk_stats_begin_document(&text);
    bi_output_format(&text, "cursor: \"%s\"\njobs:%s\n", listing->cursor,
                     request->op.list.count == 0 ? " []" : "");
    for (size_t i = 0; i < request->op.list.count; i++) {
        write_job(&text, &listing->jobs[i]);
        bide_job_clear(&listing->jobs[i]);
    }
    bi_beanstalk_stats_end_document(request->conn, &text);
}

const char *bi_beanstalk_stats_list_jobs(struct request *request, const struct command *command)
{
    size_t count = (size_t)command->count;
    if (!allocate_page(request, sizeof(struct job_listing) + count * sizeof(bide_job), "list-jobs"))
        return "OUT_OF_MEMORY\r\n";

    struct job_listing *listing = request->extra;
    /* The op writes the next cursor into it when it completes; the command is gone by then. */
    memcpy(listing->cursor, command->cursor, BIDE_CURSOR_SIZE);
    request->reply = reply_list_jobs;
    request->write = write_list_jobs;
    request->op.list = (bide_list_args){.topic = command->name,
                                        .state = command->state,
                                        .filter = command->filter,
                                        .cursor = listing->cursor,
                                        .jobs = listing->jobs,
                                        .job_max = count};
    return NULL;
}
