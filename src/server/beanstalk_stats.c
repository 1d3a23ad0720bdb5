/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_stats - the verbs that answer in YAML: figures and lists.
 *
 * The keys and their order are those of beanstalkd; monitoring reads them.
 */
#include "server/inside.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TOPICS_PAGE 200
#define BINLOG_SIZE 10485760 /* what beanstalkd says when it keeps none */

/* The release whose behaviour this server has. Clients compare it as a version or a number, so it has
 * the form of beanstalkd's own and nothing behind it. */
#define BEANSTALKD_VERSION "1.13"

/* ---- saying it ---- */

/* "OK <bytes>", and the text. */
void bi_beanstalk_say_document(struct conn *conn, struct output *text)
{
    struct output *output = &conn->output;
    output->broken |= text->broken;
    bi_output_format(output, "OK %zu\r\n", text->size);
    bi_output_add(output, text->data == NULL ? text->small : text->data, text->size);
    bi_output_add(output, "\r\n", 2);
}

static void say_count(struct output *text, const char *name, uint64_t value)
{
    bi_output_text(text, name);
    bi_output_add(text, ": ", 2);
    bi_output_number(text, value);
    bi_output_add(text, "\n", 1);
}

/* Whole seconds of a time that is left, as beanstalkd counts them: what has begun is not whole. */
static int64_t seconds_left(int64_t left_ms)
{
    return left_ms <= 0 ? 0 : (left_ms - 1) / 1000;
}

/* ---- stats ---- */

static const enum verb counted[] = {
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

static void say_commands(struct output *text, const struct server *server)
{
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        bi_output_text(text, "cmd-");
        say_count(text, bi_beanstalk_word(counted[i]), server->commands[counted[i]]);
    }
}

static void say_connections(struct output *text, const struct server *server, uint64_t waiting)
{
    say_count(text, "current-connections", server->connections);
    say_count(text, "current-producers", server->producers);
    say_count(text, "current-workers", server->workers);
    say_count(text, "current-waiting", waiting);
    say_count(text, "total-connections", server->total_connections);
}

static void say_process(struct output *text, const struct server *server)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    say_count(text, "pid", (uint64_t)getpid());
    bi_output_text(text, "version: \"" BEANSTALKD_VERSION "\"\n");
    bi_output_format(text, "rusage-utime: %ld.%06ld\n", (long)usage.ru_utime.tv_sec,
                     (long)usage.ru_utime.tv_usec);
    bi_output_format(text, "rusage-stime: %ld.%06ld\n", (long)usage.ru_stime.tv_sec,
                     (long)usage.ru_stime.tv_usec);
    say_count(text, "uptime", (uint64_t)(bi_clock_boot() - server->started) / 1000000);
}

static void say_machine(struct output *text, const struct server *server, bool draining)
{
    struct utsname name = {0};
    uname(&name);
    bi_output_format(text, "draining: %s\nid: %s\n", draining ? "true" : "false", server->id);
    bi_output_format(text, "hostname: \"%s\"\nos: \"%s\"\nplatform: \"%s\"\n", name.nodename,
                     name.version, name.machine);
    /* Behind the keys of beanstalkd, whose places some clients rely on. */
    bi_output_text(text, "bide-version: \"" BIDE_VERSION "\"\n");
}

static bool answer_stats(struct request *request)
{
    const struct server *server = request->server;
    const bide_stats *stats = &request->stats;
    struct output text;
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_output_init(&text);
    bi_output_text(&text, "---\n");
    say_count(&text, "current-jobs-urgent", stats->jobs.urgent);
    say_count(&text, "current-jobs-ready", stats->jobs.ready);
    say_count(&text, "current-jobs-reserved", stats->jobs.reserved);
    say_count(&text, "current-jobs-delayed", stats->jobs.delayed);
    say_count(&text, "current-jobs-buried", stats->jobs.buried);
    say_commands(&text, server);
    say_count(&text, "job-timeouts", stats->total.timeouts);
    say_count(&text, "total-jobs", stats->total.puts);
    say_count(&text, "max-job-size", server->max_job_size);
    say_count(&text, "current-tubes", stats->topics);
    say_connections(&text, server, stats->waiting);
    say_process(&text, server);
    bi_output_text(&text, "binlog-oldest-index: 0\nbinlog-current-index: 0\n"
                          "binlog-records-migrated: 0\nbinlog-records-written: 0\n");
    say_count(&text, "binlog-max-size", BINLOG_SIZE);
    say_machine(&text, server, stats->draining);
    bi_beanstalk_say_document(request->conn, &text);
    bi_output_done(&text);
    return true;
}

void bi_beanstalk_stats(struct conn *conn, const struct command *command)
{
    (void)command;
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_STATS, answer_stats);
    if (request == NULL)
        return;
    request->blocking = true; /* later commands do not count */
    request->op.stats = (bide_stats_args){&request->stats};
    bi_request_ask(request);
}

/* ---- stats-tube ---- */

static bool answer_stats_tube(struct request *request)
{
    const bide_topic_stats *topic = &request->topic;
    struct output text;
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bide_slice name = {topic->name, strlen(topic->name)};
    const struct tube *tube = bi_tubes_find(&request->server->tubes, name);
    bi_output_init(&text);
    bi_output_format(&text, "---\nname: \"%s\"\n", topic->name);
    say_count(&text, "current-jobs-urgent", topic->jobs.urgent);
    say_count(&text, "current-jobs-ready", topic->jobs.ready);
    say_count(&text, "current-jobs-reserved", topic->jobs.reserved);
    say_count(&text, "current-jobs-delayed", topic->jobs.delayed);
    say_count(&text, "current-jobs-buried", topic->jobs.buried);
    say_count(&text, "total-jobs", topic->total.puts);
    say_count(&text, "current-using", tube == NULL ? 0 : tube->using);
    say_count(&text, "current-watching", tube == NULL ? 0 : tube->watching);
    say_count(&text, "current-waiting", topic->waiting);
    say_count(&text, "cmd-delete", topic->total.deletes);
    say_count(&text, "cmd-pause-tube", topic->total.pauses);
    say_count(&text, "pause", (uint64_t)(topic->paused ? topic->pause_ms : 0) / 1000);
    say_count(&text, "pause-time-left", (uint64_t)seconds_left(topic->pause_left_ms));
    bi_beanstalk_say_document(request->conn, &text);
    bi_output_done(&text);
    return true;
}

void bi_beanstalk_stats_tube(struct conn *conn, const struct command *command)
{
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_TOPIC_STATS, answer_stats_tube);
    if (request == NULL)
        return;
    request->blocking = true; /* later commands do not count */
    request->op.topic_stats = (bide_topic_stats_args){command->name, &request->topic};
    bi_request_ask(request);
}

/* ---- stats-job ---- */

static bool answer_stats_job(struct request *request)
{
    const bide_job *job = &request->job;
    struct output text;
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bool timed = job->state == BIDE_STATE_RESERVED || job->state == BIDE_STATE_DELAYED;
    bi_output_init(&text);
    bi_output_format(&text, "---\nid: %llu\ntube: \"%s\"\nstate: %s\n", (unsigned long long)job->id,
                     job->topic, bide_state_name(job->state));
    say_count(&text, "pri", job->priority);
    say_count(&text, "age", (uint64_t)job->age_ms / 1000);
    say_count(&text, "delay", (uint64_t)job->delay_ms / 1000);
    say_count(&text, "ttr", (uint64_t)job->ttr_ms / 1000);
    say_count(&text, "time-left", (uint64_t)(timed ? seconds_left(job->left_ms) : 0));
    say_count(&text, "file", 0);
    say_count(&text, "reserves", job->reserves);
    say_count(&text, "timeouts", job->timeouts);
    say_count(&text, "releases", job->releases);
    say_count(&text, "buries", job->buries);
    say_count(&text, "kicks", job->kicks);
    bi_beanstalk_say_document(request->conn, &text);
    bi_output_done(&text);
    bide_job_clear(&request->job);
    return true;
}

void bi_beanstalk_stats_job(struct conn *conn, const struct command *command)
{
    if (!bi_beanstalk_is_id(command->id)) {
        bi_conn_say(conn, "NOT_FOUND\r\n");
        return;
    }
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_JOB_STATS, answer_stats_job);
    if (request == NULL)
        return;
    request->op.look = (bide_look_args){.id = command->id, .job = &request->job};
    bi_request_ask(request);
}

/* ---- memory of lists ---- */

/* While the queue is being loaded, as many lists as there are connections may wait: what they have counts,
 * the room for a page of results, too. False if all connections together have too much. */
static bool take_memory(struct conn *conn, size_t bytes, const char *verb)
{
    char sentence[100];
    conn->listing_bytes = bytes;
    bi_conn_count_memory(conn);
    if (bi_server_has_room(conn->server, conn, LARGE, 0))
        return true;

    conn->listing_bytes = 0;
    bi_conn_count_memory(conn);
    snprintf(sentence, sizeof(sentence), "%s: clients have most of max_client_bytes in buffers",
             verb);
    bi_beanstalk_tell_limit(conn->server, "OUT_OF_MEMORY", sentence);
    return false;
}

static void give_memory_back(struct conn *conn)
{
    conn->listing_bytes = 0;
    bi_conn_count_memory(conn);
}

/* A request for a page, for which extra has so many bytes. A page takes much memory: a connection has one
 * at a time. NULL: the client has its answer. */
static struct request *ask_for_page(struct conn *conn, bide_op_kind kind,
                                    bool (*answer)(struct request *request), size_t size,
                                    const char *verb)
{
    void *extra = take_memory(conn, size, verb) ? calloc(1, size) : NULL;
    struct request *request = extra == NULL ? NULL : bi_beanstalk_ask(conn, kind, answer);
    if (request == NULL) {
        give_memory_back(conn);
        if (extra == NULL)
            bi_conn_say(conn, "OUT_OF_MEMORY\r\n");
        free(extra);
        return NULL;
    }
    request->extra = extra;
    request->blocking = true;
    return request;
}

/* ---- lists of tubes ---- */

/* The size of the document comes before its first byte, so all of it is gathered: in parts that are
 * handed to the output as they are. To copy millions of names at once would keep others waiting. */
#define PART_SIZE ((size_t)32 << 10)

struct listing {
    struct output text; /* the names of the last part */
    bide_buf **parts;
    size_t part_count, part_room;
    size_t size; /* of the parts */
    char cursor[BIDE_CURSOR_SIZE];
    bide_topic_stats topics[TOPICS_PAGE];
};

static void drop_listing(void *extra)
{
    struct listing *listing = extra;
    bi_output_done(&listing->text);
    for (size_t i = 0; i < listing->part_count; i++)
        bide_buf_unref(listing->parts[i]);
    free(listing->parts);
    free(listing);
}

static bool reserve_part(struct listing *listing)
{
    if (listing->part_count < listing->part_room)
        return true;
    size_t room = listing->part_room == 0 ? 16 : listing->part_room * 2;
    bide_buf **parts = realloc(listing->parts, room * sizeof(bide_buf *));
    if (parts == NULL)
        return false;
    listing->parts = parts;
    listing->part_room = room;
    return true;
}

/* False when out of memory. */
static bool end_part(struct listing *listing)
{
    const struct output *text = &listing->text;
    if (text->broken || !reserve_part(listing))
        return false;
    bide_buf *part = bide_buf_new(text->data == NULL ? text->small : text->data, text->size);
    if (part == NULL)
        return false;
    listing->parts[listing->part_count++] = part;
    listing->size += text->size;
    listing->text.size = 0;
    return true;
}

static void ask_page(struct request *request)
{
    struct listing *listing = request->extra;
    request->op.topics = (bide_topics_args){
        .cursor = listing->cursor, .topics = listing->topics, .topic_max = TOPICS_PAGE};
}

static void say_name(struct output *text, const char *name)
{
    bi_output_add(text, "- ", 2);
    bi_output_text(text, name);
    bi_output_add(text, "\n", 1);
}

static void say_listing(struct conn *conn, struct listing *listing)
{
    struct output *output = &conn->output;
    bi_output_format(output, "OK %zu\r\n", listing->size);
    for (size_t i = 0; i < listing->part_count; i++) {
        bide_buf *part = listing->parts[i];
        bi_output_body(output, part, bide_buf_data(part), bide_buf_size(part));
    }
    bi_output_add(output, "\r\n", 2);
}

static size_t listing_memory(const struct listing *listing)
{
    return sizeof(*listing) + bi_output_memory(&listing->text) + listing->size;
}

static bool answer_list_tubes(struct request *request)
{
    struct listing *listing = request->extra;
    struct conn *conn = request->conn;
    give_memory_back(conn);
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    for (size_t i = 0; i < request->op.topics.count; i++)
        say_name(&listing->text, listing->topics[i].name);
    bool ends = listing->cursor[0] == 0;
    bool fits = (!ends && listing->text.size < PART_SIZE) || end_part(listing);
    if (fits && ends) {
        say_listing(conn, listing);
        return true;
    }
    if (!fits || !take_memory(conn, listing_memory(listing), "list-tubes")) {
        bi_output_text(&conn->output, "OUT_OF_MEMORY\r\n");
        return true;
    }
    ask_page(request);
    bi_request_submit_later(request);
    return false;
}

void bi_beanstalk_list_tubes(struct conn *conn, const struct command *command)
{
    (void)command;
    struct listing *listing;
    struct request *request =
        ask_for_page(conn, BIDE_OP_TOPICS, answer_list_tubes, sizeof(*listing), "list-tubes");
    if (request == NULL)
        return;
    listing = request->extra;
    bi_output_init(&listing->text);
    request->drop = drop_listing;
    bi_output_text(&listing->text, "---\n");
    ask_page(request);
    bi_request_ask(request);
}

static bool answer_watched(struct request *request)
{
    const struct session *session = &request->conn->session;
    struct output text;
    bi_output_init(&text);
    bi_output_text(&text, "---\n");
    for (uint32_t i = 0; i < session->watched_count; i++)
        say_name(&text, session->watched[i]->name);
    bi_beanstalk_say_document(request->conn, &text);
    bi_output_done(&text);
    return true;
}

void bi_beanstalk_list_watched(struct conn *conn, const struct command *command)
{
    (void)command;
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_NONE, answer_watched);
    if (request == NULL)
        return;
    request->blocking = true; /* the list must not change before it is said */
    bi_request_in_turn(request);
}

/* ---- list-jobs ---- */

struct job_listing {
    char cursor[BIDE_CURSOR_SIZE];
    size_t max;
    bide_job jobs[];
};

/* A name or text in double quotes. */
static void say_quoted(struct output *text, const char *name, const void *data, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *bytes = data;
    size_t plain = 0; /* where the bytes begin that are said as they are */
    bi_output_format(text, "  %s: \"", name);
    for (size_t i = 0; i < size; i++) {
        bool quoted = bytes[i] == '"' || bytes[i] == '\\';
        if (!quoted && bytes[i] >= 32 && bytes[i] < 127)
            continue;
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

static void say_listed(struct output *text, const bide_job *job)
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
        say_quoted(text, "key", job->key, job->key_size);
    if (job->last_error != NULL)
        say_quoted(text, "error", job->last_error, job->last_error_size);
}

static bool answer_list_jobs(struct request *request)
{
    struct job_listing *listing = request->extra;
    struct output text;
    give_memory_back(request->conn);
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_output_init(&text);
    bi_output_format(&text, "---\ncursor: \"%s\"\njobs:%s\n", listing->cursor,
                     request->op.list.count == 0 ? " []" : "");
    for (size_t i = 0; i < request->op.list.count; i++) {
        say_listed(&text, &listing->jobs[i]);
        bide_job_clear(&listing->jobs[i]);
    }
    bi_beanstalk_say_document(request->conn, &text);
    bi_output_done(&text);
    return true;
}

void bi_beanstalk_list_jobs(struct conn *conn, const struct command *command)
{
    struct job_listing *listing;
    size_t size = sizeof(*listing) + (size_t)command->count * sizeof(bide_job);
    struct request *request = ask_for_page(conn, BIDE_OP_LIST, answer_list_jobs, size, "list-jobs");
    if (request == NULL)
        return;
    listing = request->extra;
    memcpy(listing->cursor, command->cursor, BIDE_CURSOR_SIZE);
    request->modern = true;
    request->op.list = (bide_list_args){.topic = command->name,
                                        .state = command->state,
                                        .filter = command->filter,
                                        .cursor = listing->cursor,
                                        .jobs = listing->jobs,
                                        .job_max = (size_t)command->count};
    bi_request_ask(request);
    bi_server_flush(conn->server); /* the filter lies in the command */
}
