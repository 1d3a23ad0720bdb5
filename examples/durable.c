/* SPDX-License-Identifier: MIT */
/*
 * What a queue in a file keeps: durable [FILE]
 *
 * A process puts five jobs, takes one, deletes another, and is killed with kill -9 in the middle of
 * its work. Then the queue is opened again: what was acknowledged is there, what was deleted is
 * not, and the job that was being worked on is ready again.
 */
#include <bide/bide.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bide *open_queue(const char *url)
{
    bide *queue;
    if (bide_open(url, NULL, &queue) == BIDE_OK)
        return queue;
    fprintf(stderr, "%s\n", bide_last_error());
    exit(EXIT_FAILURE);
}

/* Does not return. */
static void work_and_die(const char *url)
{
    bide *queue = open_queue(url);
    bide_job job;
    for (int i = 1; i <= 5; i++) {
        char body[32];
        int size = snprintf(body, sizeof body, "letter %d", i);
        if (bide_put(queue, "mail", body, (size_t)size, NULL, NULL) != BIDE_OK)
            fprintf(stderr, "%s\n", bide_last_error());
    }
    bide_reserve(queue, "mail", 0, &job);
    bide_delete(queue, job.id, job.token); /* letter 1 is done */
    bide_job_clear(&job);
    bide_reserve(queue, "mail", 0, &job); /* letter 2 is being worked on ... */
    raise(SIGKILL);
}

/* Answers how many jobs there were. */
static int work_off(const char *url)
{
    bide *queue = open_queue(url);
    bide_job job;
    int count = 0;
    /* With millions of jobs open returns before all are loaded; this waits for them. */
    bide_wait_recovered(queue, BIDE_FOREVER, NULL);
    for (; bide_reserve(queue, "mail", 0, &job) == BIDE_OK; count++) {
        printf("%.*s is still there\n", (int)job.body_size, (const char *)job.body);
        bide_delete(queue, job.id, job.token);
        bide_job_clear(&job);
    }
    bide_close(queue);
    return count;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/bide-durable-XXXXXX";
    char url[4096];
    if (argc <= 1 && mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    snprintf(url, sizeof url, "sqlite:%s%s", argc > 1 ? argv[1] : folder,
             argc > 1 ? "" : "/jobs.db");
    pid_t child = fork(); /* before a queue is open: its threads would not come along */
    if (child == 0)
        work_and_die(url);
    waitpid(child, NULL, 0);
    printf("the process was killed; the queue is opened again\n");
    int count = work_off(url);
    if (argc <= 1)
        printf("the files are in %s\n", folder);
    return count == 4 ? EXIT_SUCCESS : EXIT_FAILURE;
}
