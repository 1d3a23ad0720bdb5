/* SPDX-License-Identifier: MIT */
#include "op/worker_info.h"

#include "op/op_codec_wire.h"
#include "op/op_table.h"

#include <assert.h>
#include <stdlib.h>

/* ---- limits ---- */

static const char bad_name[] = "the name of a worker has 1 to 128 bytes";
static const char bad_text[] = "a text of a worker is too long";
static const char bad_number[] = "a number of a worker is larger than 2^53-1";
static const char bad_time[] = "a time of a worker is out of range";
static const char bad_topic[] = "a topic of a worker is invalid";
static const char bad_id[] = "a job of a worker has an invalid id";
static const char bad_count[] = "a worker has more than 100 topics or jobs";

_Static_assert(BIDE_HOLDER_MAX == 128 && BIDE_ANNOUNCED_TOPICS_MAX == 100 &&
                   BIDE_ANNOUNCED_JOBS_MAX == 100 && BIDE_ID_MAX == (UINT64_C(1) << 53) - 1,
               "the texts above have the limits");

/* The numbers of a worker, in the order of their bytes. */
static const size_t numbers[] = {
    offsetof(bide_worker_info, pid),     offsetof(bide_worker_info, threads),
    offsetof(bide_worker_info, running), offsetof(bide_worker_info, done),
    offsetof(bide_worker_info, failed),  offsetof(bide_worker_info, lost),
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static uint64_t number_at(const bide_worker_info *info, size_t index)
{
    return *(const uint64_t *)(const void *)((const char *)info + numbers[index]);
}

static bool is_time(int64_t ms)
{
    return ms >= 0 && ms <= BIDE_TIMESTAMP_MAX_MS;
}

static bool fits(bide_slice text, size_t most)
{
    return text.size <= most && (text.data != NULL || text.size == 0);
}

static const char *check_job(const bide_running_job *job)
{
    return job->id < 1 || job->id > BIDE_ID_MAX      ? bad_id
           : !is_time(job->since_ms)                 ? bad_time
           : !bi_topic_name_valid(job->topic)        ? bad_topic
           : !fits(job->progress, BIDE_PROGRESS_MAX) ? bad_text
                                                     : NULL;
}

const char *bi_worker_info_check(const bide_worker_info *info)
{
    const char *problem = NULL;
    if (info->name.size == 0 || !fits(info->name, BIDE_HOLDER_MAX))
        return bad_name;
    if (!fits(info->host, BI_WORKER_TEXT_MAX) || !fits(info->version, BI_WORKER_TEXT_MAX))
        return bad_text;
    if (!is_time(info->started_ms))
        return bad_time;
    if (info->topic_count > BIDE_ANNOUNCED_TOPICS_MAX || info->job_count > BIDE_ANNOUNCED_JOBS_MAX)
        return bad_count;

    if (info->connection > BIDE_ID_MAX)
        problem = bad_number;
    for (size_t i = 0; problem == NULL && i < NUMBERS; i++)
        if (number_at(info, i) > BIDE_ID_MAX)
            problem = bad_number;
    for (size_t i = 0; problem == NULL && i < info->topic_count; i++)
        if (!bi_topic_name_valid(info->topics[i]))
            problem = bad_topic;
    for (size_t i = 0; problem == NULL && i < info->job_count; i++)
        problem = check_job(&info->jobs[i]);
    return problem;
}

/* ---- encoding ---- */

static void write_text(struct op_writer *writer, bide_slice text)
{
    write_bytes(writer, text.size == 0 ? NULL : text.data, text.size);
}

static void write_job(struct op_writer *writer, const bide_running_job *job)
{
    size_t start = bi_op_codec_wire_begin_struct(writer);
    write_number(writer, job->id);
    write_signed(writer, job->since_ms);
    write_text(writer, job->topic);
    write_text(writer, job->progress);
    bi_op_codec_wire_end_struct(writer, start);
}

/* Writes a worker with the first topics and jobs only. */
static void write_worker(struct op_writer *writer, const bide_worker_info *info, size_t topics,
                         size_t jobs)
{
    write_text(writer, info->name);
    write_number(writer, info->connection);
    write_number(writer, topics);
    for (size_t i = 0; i < topics; i++)
        write_text(writer, info->topics[i]);
    write_text(writer, info->host);
    write_text(writer, info->version);
    for (size_t i = 0; i < NUMBERS; i++)
        write_number(writer, number_at(info, i));
    write_signed(writer, info->started_ms);
    write_number(writer, jobs);
    for (size_t i = 0; i < jobs; i++)
        write_job(writer, &info->jobs[i]);
}

bide_buf *bide_worker_encode(const bide_worker_info *info)
{
    struct op_bytes bytes = {0};
    struct op_writer writer = {.out = &bytes};
    if (info == NULL || bi_worker_info_check(info) != NULL)
        return NULL;

    /* Jobs are left out before topics: those decide which worker serves a job. */
    size_t jobs = info->job_count, topics = info->topic_count;
    write_worker(&writer, info, topics, jobs);
    while (!writer.failed && bytes.size > BIDE_ANNOUNCED_SIZE_MAX) {
        assert(jobs > 0 || topics > 0);
        topics -= jobs == 0;
        jobs -= jobs > 0;
        bytes.size = 0;
        write_worker(&writer, info, topics, jobs);
    }

    bide_buf *buf = writer.failed ? NULL : bide_buf_new(bytes.data, bytes.size);
    bi_op_codec_wire_free_bytes(&bytes);
    return buf;
}

/* ---- decoding ---- */

static bool read_text(struct op_reader *reader, bide_slice *text, size_t most)
{
    return bi_op_codec_wire_read_bytes(reader, text) &&
           (text->size <= most || malformed(reader, bad_text));
}

static bool read_topic(struct op_reader *reader, bide_slice *topic)
{
    return bi_op_codec_wire_read_bytes(reader, topic) &&
           (bi_topic_name_valid(*topic) || malformed(reader, bad_topic));
}

static bool read_time(struct op_reader *reader, int64_t *ms)
{
    return read_signed(reader, ms) && (is_time(*ms) || malformed(reader, bad_time));
}

static bool read_limited(struct op_reader *reader, uint64_t *number)
{
    return read_number(reader, number) && (*number <= BIDE_ID_MAX || malformed(reader, bad_number));
}

/* Reads what the core needs. Of more topics than there is room for the first are stored; *count has
 * all of them. */
static bool read_head(struct op_reader *reader, bide_worker_info *info, bide_slice *topics,
                      size_t topic_max)
{
    uint64_t count;
    if (!read_text(reader, &info->name, BIDE_HOLDER_MAX) ||
        !read_limited(reader, &info->connection) || !read_number(reader, &count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        bide_slice topic;
        if (!read_topic(reader, &topic))
            return false;
        if (i < topic_max)
            topics[i] = topic;
    }
    info->topic_count = (size_t)count;
    return info->name.size > 0 || malformed(reader, bad_name);
}

static bool read_job(struct op_reader *reader, bide_running_job *job)
{
    const unsigned char *outer;
    *job = (bide_running_job){0};
    if (!bi_op_codec_wire_enter_struct(reader, &outer) || !read_number(reader, &job->id) ||
        !read_time(reader, &job->since_ms) || !read_topic(reader, &job->topic) ||
        !read_text(reader, &job->progress, BIDE_PROGRESS_MAX))
        return false;
    leave_struct(reader, outer);
    return (job->id >= 1 && job->id <= BIDE_ID_MAX) || malformed(reader, bad_id);
}

static bool read_jobs(struct op_reader *reader, bide_worker_info *info, bide_running_job *jobs,
                      size_t job_max)
{
    uint64_t count;
    if (!read_number(reader, &count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        bide_running_job job;
        if (!read_job(reader, &job))
            return false;
        if (i < job_max)
            jobs[i] = job;
    }
    info->job_count = (size_t)count;
    return true;
}

static struct op_reader reader_of(const void *data, size_t size)
{
    return (struct op_reader){.at = data, .end = (const unsigned char *)data + size};
}

/* Stores as many topics and jobs as there is room for; their counts are those of the bytes. */
static const char *decode(const void *data, size_t size, bide_worker_info *info, bide_slice *topics,
                          size_t topic_max, bide_running_job *jobs, size_t job_max)
{
    if (data == NULL)
        return "a worker has no bytes";

    struct op_reader reader = reader_of(data, size);
    *info = (bide_worker_info){.topics = topics, .jobs = jobs};
    bool good = read_head(&reader, info, topics, topic_max) &&
                read_text(&reader, &info->host, BI_WORKER_TEXT_MAX) &&
                read_text(&reader, &info->version, BI_WORKER_TEXT_MAX);
    for (size_t i = 0; good && i < NUMBERS; i++)
        good = read_limited(&reader, (uint64_t *)(void *)((char *)info + numbers[i]));
    good = good && read_time(&reader, &info->started_ms) && read_jobs(&reader, info, jobs, job_max);
    return good ? NULL : reader.problem;
}

/* A newer library may list more than the arrays have room for. */
bool bide_worker_decode(const void *data, size_t size, bide_worker_info *info, bide_slice *topics,
                        size_t topic_max, bide_running_job *jobs, size_t job_max)
{
    if (decode(data, size, info, topics, topic_max, jobs, job_max) != NULL)
        return false;
    info->topic_count = info->topic_count < topic_max ? info->topic_count : topic_max;
    info->job_count = info->job_count < job_max ? info->job_count : job_max;
    return true;
}

const char *bi_worker_info_check_bytes(const void *data, size_t size)
{
    bide_worker_info info;
    if (size > BIDE_ANNOUNCED_SIZE_MAX)
        return "a worker has more than 16384 bytes";
    const char *problem = decode(data, size, &info, NULL, 0, NULL, 0);
    if (problem == NULL &&
        (info.topic_count > BIDE_ANNOUNCED_TOPICS_MAX || info.job_count > BIDE_ANNOUNCED_JOBS_MAX))
        problem = bad_count;
    return problem;
}

void bi_worker_info_read_head(const void *data, size_t size, bide_worker_info *info,
                              bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX])
{
    struct op_reader reader = reader_of(data, size);
    *info = (bide_worker_info){.topics = topics};
    bool valid = read_head(&reader, info, topics, BIDE_ANNOUNCED_TOPICS_MAX);
    assert(valid && info->topic_count <= BIDE_ANNOUNCED_TOPICS_MAX);
    (void)valid;
}

void bide_announced_clear(bide_announced *announced)
{
    if (announced == NULL)
        return;
    bide_buf_unref(announced->data_buf_);
    *announced = (bide_announced){0};
}
