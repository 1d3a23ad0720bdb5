/* SPDX-License-Identifier: MIT */
#include "op/worker_info.h"

#include "op/op_codec_wire.h"
#include "op/op_table.h"

#include <assert.h>
#include <stdlib.h>

/* ---- encoding ---- */

static bool fits(bide_slice text, size_t most)
{
    return text.size <= most && (text.data != NULL || text.size == 0);
}

static bool is_valid_job(const bide_running_job *job)
{
    return job->id >= 1 && job->id <= BIDE_ID_MAX && job->since_ms >= 0 &&
           job->since_ms <= BIDE_TIMESTAMP_MAX_MS && bi_topic_name_valid(job->topic) &&
           fits(job->progress, BIDE_PROGRESS_MAX);
}

static bool is_valid(const bide_worker_info *info)
{
    if (!fits(info->name, BIDE_HOLDER_MAX) || info->name.size == 0 ||
        !fits(info->host, BI_WORKER_TEXT_MAX) || !fits(info->version, BI_WORKER_TEXT_MAX) ||
        info->started_ms < 0 || info->started_ms > BIDE_TIMESTAMP_MAX_MS ||
        info->topic_count > BIDE_ANNOUNCED_TOPICS_MAX || info->job_count > BIDE_ANNOUNCED_JOBS_MAX)
        return false;

    for (size_t i = 0; i < info->topic_count; i++)
        if (!bi_topic_name_valid(info->topics[i]))
            return false;
    for (size_t i = 0; i < info->job_count; i++)
        if (!is_valid_job(&info->jobs[i]))
            return false;
    return true;
}

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
    const uint64_t numbers[] = {info->pid,  info->threads, info->running,
                                info->done, info->failed,  info->lost};

    write_text(writer, info->name);
    write_number(writer, topics);
    for (size_t i = 0; i < topics; i++)
        write_text(writer, info->topics[i]);
    write_text(writer, info->host);
    write_text(writer, info->version);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        write_number(writer, numbers[i]);
    write_signed(writer, info->started_ms);
    write_number(writer, jobs);
    for (size_t i = 0; i < jobs; i++)
        write_job(writer, &info->jobs[i]);
}

bide_buf *bide_worker_encode(const bide_worker_info *info)
{
    struct op_bytes bytes = {0};
    struct op_writer writer = {.out = &bytes};
    if (info == NULL || !is_valid(info))
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
           (text->size <= most || malformed(reader, "a text of a worker is too long"));
}

static bool read_topic(struct op_reader *reader, bide_slice *topic)
{
    return bi_op_codec_wire_read_bytes(reader, topic) &&
           (bi_topic_name_valid(*topic) || malformed(reader, "a topic of a worker is invalid"));
}

static bool read_time(struct op_reader *reader, int64_t *ms)
{
    return read_signed(reader, ms) && ((*ms >= 0 && *ms <= BIDE_TIMESTAMP_MAX_MS) ||
                                       malformed(reader, "a time of a worker is out of range"));
}

static bool read_count(struct op_reader *reader, size_t *count, size_t most)
{
    uint64_t number;
    if (!read_number(reader, &number))
        return false;
    *count = (size_t)number;
    return number <= most || malformed(reader, "a worker has too many topics or jobs");
}

static bool read_head(struct op_reader *reader, bide_slice *name, bide_slice *topics, size_t *count)
{
    if (!read_text(reader, name, BIDE_HOLDER_MAX) ||
        !read_count(reader, count, BIDE_ANNOUNCED_TOPICS_MAX))
        return false;
    for (size_t i = 0; i < *count; i++)
        if (!read_topic(reader, &topics[i]))
            return false;
    return name->size > 0 || malformed(reader, "a worker has no name");
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
    return (job->id >= 1 && job->id <= BIDE_ID_MAX) ||
           malformed(reader, "a job of a worker has an invalid id");
}

static bool read_worker(struct op_reader *reader, bide_worker_info *info, bide_slice *topics,
                        bide_running_job *jobs)
{
    uint64_t *const numbers[] = {&info->pid,  &info->threads, &info->running,
                                 &info->done, &info->failed,  &info->lost};

    if (!read_head(reader, &info->name, topics, &info->topic_count) ||
        !read_text(reader, &info->host, BI_WORKER_TEXT_MAX) ||
        !read_text(reader, &info->version, BI_WORKER_TEXT_MAX))
        return false;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (!read_number(reader, numbers[i]))
            return false;
    if (!read_time(reader, &info->started_ms) ||
        !read_count(reader, &info->job_count, BIDE_ANNOUNCED_JOBS_MAX))
        return false;
    for (size_t i = 0; i < info->job_count; i++)
        if (!read_job(reader, &jobs[i]))
            return false;
    return true;
}

static struct op_reader reader_of(const void *data, size_t size)
{
    return (struct op_reader){.at = data, .end = (const unsigned char *)data + size};
}

static const char *decode(const void *data, size_t size, bide_worker_info *info, bide_slice *topics,
                          bide_running_job *jobs)
{
    if (data == NULL || size > BIDE_ANNOUNCED_SIZE_MAX)
        return "a worker has no bytes, or too many";

    struct op_reader reader = reader_of(data, size);
    *info = (bide_worker_info){0};
    if (!read_worker(&reader, info, topics, jobs))
        return reader.problem;
    info->topics = topics;
    info->jobs = jobs;
    return NULL;
}

bool bide_worker_decode(const void *data, size_t size, bide_worker_info *info, bide_slice *topics,
                        bide_running_job *jobs)
{
    return decode(data, size, info, topics, jobs) == NULL;
}

const char *bi_worker_info_decode(const void *data, size_t size, struct worker_info *worker)
{
    return decode(data, size, &worker->info, worker->topics, worker->jobs);
}

size_t bi_worker_info_topics(const void *data, size_t size, bide_slice *name,
                             bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX])
{
    struct op_reader reader = reader_of(data, size);
    size_t count = 0;
    bool valid = read_head(&reader, name, topics, &count);
    assert(valid);
    (void)valid;
    return count;
}

void bide_announced_clear(bide_announced *announced)
{
    if (announced == NULL)
        return;
    bide_buf_unref(announced->data_buf_);
    *announced = (bide_announced){0};
}
