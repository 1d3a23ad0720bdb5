/* SPDX-License-Identifier: MIT */
#include "op/worker_info.h"

#include "op/op_codec_wire.h"
#include "op/op_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- limits ---- */

#define TEXT_OF_(number) #number
#define TEXT_OF(number)  TEXT_OF_(number)

/* The numbers of a worker, in the order of their bytes. */
static const size_t numbers[] = {
    offsetof(bide_worker_info, connection), offsetof(bide_worker_info, pid),
    offsetof(bide_worker_info, threads),    offsetof(bide_worker_info, running),
    offsetof(bide_worker_info, done),       offsetof(bide_worker_info, failed),
    offsetof(bide_worker_info, lost),
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

/* Each topic must be valid, and named once: the core counts the workers of each. */
static const char *check_topics(const bide_worker_info *info)
{
    const bide_slice *topics = info->topics;
    for (size_t i = 0; i < info->topic_count; i++) {
        if (!bi_topic_name_valid(topics[i]))
            return "a topic of a worker is invalid";
        for (size_t before = 0; before < i; before++)
            if (topics[i].size == topics[before].size &&
                memcmp(topics[i].data, topics[before].data, topics[i].size) == 0)
                return "a topic of a worker is named twice";
    }
    return NULL;
}

static const char *check_jobs(const bide_worker_info *info)
{
    for (size_t i = 0; i < info->job_count; i++) {
        const bide_running_job *job = &info->jobs[i];
        if (job->id < 1 || job->id > BIDE_ID_MAX || !is_time(job->since_ms) ||
            !bi_topic_name_valid(job->topic) || !fits(job->progress, BIDE_PROGRESS_MAX))
            return "a job of a worker has an invalid id, time, topic or progress text";
    }
    return NULL;
}

const char *bi_worker_info_check(const bide_worker_info *info)
{
    if (info->name.size == 0 || !fits(info->name, BIDE_HOLDER_MAX))
        return "the name of a worker has 1 to " TEXT_OF(BIDE_HOLDER_MAX) " bytes";
    if (!fits(info->host, BI_WORKER_TEXT_MAX) || !fits(info->version, BI_WORKER_TEXT_MAX))
        return "host and version of a worker have at most " TEXT_OF(BI_WORKER_TEXT_MAX) " bytes";
    if (!is_time(info->started_ms))
        return "the start of a worker is out of range";
    for (size_t i = 0; i < NUMBERS; i++)
        if (number_at(info, i) > BIDE_ID_MAX)
            return "a number of a worker is larger than 2^53-1";
    if (info->topic_count > BIDE_ANNOUNCED_TOPICS_MAX || info->job_count > BIDE_ANNOUNCED_JOBS_MAX)
        return "a worker has more than " TEXT_OF(BIDE_ANNOUNCED_TOPICS_MAX) " topics or " TEXT_OF(
            BIDE_ANNOUNCED_JOBS_MAX) " jobs";

    const char *problem = check_topics(info);
    return problem != NULL ? problem : check_jobs(info);
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
    for (size_t i = 1; i < NUMBERS; i++) /* the connection is before the topics */
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

/* ---- decoding: reads, and checks what it has stored afterwards ---- */

/* Reads what the core needs. Stores as many topics as there is room for; the count is that of the
 * bytes. */
static bool read_head(struct op_reader *reader, bide_worker_info *info, bide_slice *topics,
                      size_t topic_max)
{
    uint64_t count;
    if (!bi_op_codec_wire_read_bytes(reader, &info->name) ||
        !read_number(reader, &info->connection) || !read_number(reader, &count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        bide_slice topic;
        if (!bi_op_codec_wire_read_bytes(reader, i < topic_max ? &topics[i] : &topic))
            return false;
    }
    info->topic_count = (size_t)count;
    return true;
}

static bool read_job(struct op_reader *reader, bide_running_job *job)
{
    const unsigned char *outer;
    *job = (bide_running_job){0};
    if (!bi_op_codec_wire_enter_struct(reader, &outer) || !read_number(reader, &job->id) ||
        !read_signed(reader, &job->since_ms) || !bi_op_codec_wire_read_bytes(reader, &job->topic) ||
        !bi_op_codec_wire_read_bytes(reader, &job->progress))
        return false;
    leave_struct(reader, outer);
    return true;
}

static bool read_jobs(struct op_reader *reader, bide_worker_info *info, bide_running_job *jobs,
                      size_t job_max)
{
    uint64_t count;
    if (!read_number(reader, &count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        bide_running_job job;
        if (!read_job(reader, i < job_max ? &jobs[i] : &job))
            return false;
    }
    info->job_count = (size_t)count;
    return true;
}

static struct op_reader reader_of(const void *data, size_t size)
{
    return (struct op_reader){.at = data, .end = (const unsigned char *)data + size};
}

static const char *decode(const void *data, size_t size, bide_worker_info *info, bide_slice *topics,
                          size_t topic_max, bide_running_job *jobs, size_t job_max)
{
    if (data == NULL)
        return "a worker has no bytes";

    struct op_reader reader = reader_of(data, size);
    *info = (bide_worker_info){.topics = topics, .jobs = jobs};
    bool good = read_head(&reader, info, topics, topic_max) &&
                bi_op_codec_wire_read_bytes(&reader, &info->host) &&
                bi_op_codec_wire_read_bytes(&reader, &info->version);
    for (size_t i = 1; good && i < NUMBERS; i++)
        good = read_number(&reader, (uint64_t *)(void *)((char *)info + numbers[i]));
    good =
        good && read_signed(&reader, &info->started_ms) && read_jobs(&reader, info, jobs, job_max);
    return good ? NULL : reader.problem;
}

static size_t min_of(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* A newer library may list more than this one. */
bool bide_worker_decode(const void *data, size_t size, bide_worker_info *info, bide_slice *topics,
                        size_t topic_max, bide_running_job *jobs, size_t job_max)
{
    if (decode(data, size, info, topics, topic_max, jobs, job_max) != NULL)
        return false;
    info->topic_count = min_of(info->topic_count, topic_max, BIDE_ANNOUNCED_TOPICS_MAX);
    info->job_count = min_of(info->job_count, job_max, BIDE_ANNOUNCED_JOBS_MAX);
    return bi_worker_info_check(info) == NULL;
}

const char *bi_worker_info_check_bytes(const void *data, size_t size)
{
    bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
    bide_running_job jobs[BIDE_ANNOUNCED_JOBS_MAX];
    bide_worker_info info;
    if (size > BIDE_ANNOUNCED_SIZE_MAX)
        return "a worker has more than " TEXT_OF(BIDE_ANNOUNCED_SIZE_MAX) " bytes";

    const char *problem =
        decode(data, size, &info, topics, BIDE_ANNOUNCED_TOPICS_MAX, jobs, BIDE_ANNOUNCED_JOBS_MAX);
    return problem != NULL ? problem : bi_worker_info_check(&info);
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
