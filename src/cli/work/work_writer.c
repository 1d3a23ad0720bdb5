/* SPDX-License-Identifier: MIT */
#include "cli/work/work_writer.h"

#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define CHUNK   4096 /* so much a pipe that is ready takes at once */
#define STEP_US INT64_C(5000000)

/* What can be written without waiting: 0 when that is nothing; -1 with errno. */
static ssize_t write_chunk(int fd, const char *data, size_t size)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct pollfd reader = {.fd = fd, .events = POLLOUT};
    ssize_t written = 0;
    int error = 0;
    pthread_mutex_lock(&lock);
    if (poll(&reader, 1, 0) > 0) {
        written = write(fd, data, size < CHUNK ? size : CHUNK);
        error = errno;
    }
    pthread_mutex_unlock(&lock);
    if (written < 0 && (error == EINTR || error == EAGAIN))
        return 0;
    errno = error;
    return written;
}

static int poll_timeout_ms(int64_t until_us)
{
    int64_t left = until_us - bi_clock_boot();
    return left <= 0 ? 0 : left > STEP_US ? (int)(STEP_US / 1000) : (int)((left + 999) / 1000);
}

/* False when there is no more time for that. */
static bool wait_for_reader(const struct work *work, int fd, int wake_fd, int64_t until_us)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLOUT},
                           {.fd = work->stop_fd, .events = POLLIN},
                           {.fd = work->kill_fd, .events = POLLIN},
                           {.fd = wake_fd, .events = POLLIN}};
    int ready = poll(fds, 4, poll_timeout_ms(until_us));
    if (ready > 0 && fds[0].revents != 0)
        return true;
    if (ready <= 0)
        return bi_clock_boot() < until_us;
    return poll(fds, 1, (int)(BI_WORK_WRITER_PATIENCE_US / 1000)) > 0;
}

bool bi_work_writer_write(const struct work *work, int fd, const char *data, size_t size,
                          int wake_fd, int64_t until_us)
{
    while (size > 0) {
        ssize_t written = write_chunk(fd, data, size);
        if (written < 0)
            return false;
        data += written;
        size -= (size_t)written;
        if (written == 0 && !wait_for_reader(work, fd, wake_fd, until_us)) {
            errno = ETIMEDOUT;
            return false;
        }
    }
    return true;
}

void bi_work_writer_note(const struct work *work, const char *format, ...)
{
    char line[BI_ERRMSG_SIZE + 1];
    va_list args;
    if (work->cli->quiet)
        return;
    va_start(args, format);
    int size = vsnprintf(line, BI_ERRMSG_SIZE, format, args);
    va_end(args);
    size_t length = size < BI_ERRMSG_SIZE ? (size_t)size : BI_ERRMSG_SIZE - 1;
    line[length++] = '\n';
    bi_work_writer_write(work, STDERR_FILENO, line, length, -1,
                         bi_clock_boot() + BI_WORK_WRITER_PATIENCE_US);
}
