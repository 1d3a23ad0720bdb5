/* SPDX-License-Identifier: MIT */
/*
 * Work that tells how far it is, and leaves a result: progress [URL]
 *
 * The publisher of a report looks at the job while it waits, and gets a struct back. The result is
 * kept for a minute (retain_ms); without that it would be gone as soon as it is there.
 */
#include <bide/task.h>

#include <stdio.h>
#include <stdlib.h>

struct report {
    uint32_t lines;
};
BIDE_TYPE(report, struct report, BIDE_FIELD(lines));
BIDE_TASK(read_report, report, .topic = "read-report", .retain_ms = 60000);

struct summary {
    uint32_t lines;
    double average;
};
BIDE_TYPE(summary, struct summary, BIDE_FIELD(lines), BIDE_FIELD(average));

static int read_report(bide_context *context, const struct report *report, void *arg)
{
    double sum = 0;
    (void)arg;
    for (uint32_t i = 1; i <= report->lines; i++) {
        bide_context_progress(context, "line %u of %u", i, report->lines);
        if (bide_context_wait(context, 100) != BIDE_REASON_NONE) /* the work of a line */
            return bide_context_retry(context, "stopped at line %u", i);
        sum += i;
    }
    struct summary summary = {.lines = report->lines, .average = sum / report->lines};
    return bide_context_result_as(context, summary, summary);
}

static int wait_for_result(bide *queue, uint64_t id, bide_buf **json)
{
    bide_job job;
    int code;
    while ((code = bide_wait(queue, id, 300, NULL, json)) == BIDE_TIMED_OUT) {
        if (bide_job_stats(queue, id, &job) != BIDE_OK)
            continue;
        printf("%s: %s\n", bide_state_name(job.state), job.progress != NULL ? job.progress : "");
        bide_job_clear(&job);
    }
    return code;
}

int main(int argc, char **argv)
{
    bide *queue;
    bide_worker *worker;
    uint64_t id;
    bide_buf *json = NULL; /* stays so if the job is not done but buried */
    struct summary *summary;

    if (bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue) ||
        bide_worker_new(queue, NULL, &worker) ||
        bide_handle(worker, read_report, read_report, NULL) || bide_worker_start(worker) ||
        bide_publish(queue, read_report, (struct report){.lines = 15}, NULL, &id) ||
        wait_for_result(queue, id, &json) ||
        bide_decode(summary, bide_buf_data(json), bide_buf_size(json), &summary)) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    printf("%u lines, %.1f on average\n", summary->lines, summary->average);
    int status = summary->lines == 15 && summary->average == 8 ? EXIT_SUCCESS : EXIT_FAILURE;
    bide_decoded_free(summary);
    bide_buf_unref(json);
    bide_worker_free(worker);
    bide_close(queue);
    return status;
}
