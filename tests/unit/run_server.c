/* SPDX-License-Identifier: MIT */
#include "run_server.h"

#include "unit.h"

static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* A server that gives up at a stop leaves its completion queue, and the requests that are pending,
 * to the end of the process. This keeps them reachable. */
static bide_cq *volatile left_behind;

int open_client(void)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        abort();
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

void run_server(const struct server_settings *settings, void *(*clients)(void *arg))
{
    char error[BIDE_ERROR_SIZE];
    struct server *server;
    pthread_t thread;
    assert_int_equal(bi_server_new(settings, &server, error), BIDE_OK);

    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/bide-unit-%d", (int)getpid());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 100), 0);
    assert_int_equal(bi_server_listen(server, &bi_beanstalk_protocol, fd, error), BIDE_OK);

    assert_int_equal(pthread_create(&thread, NULL, clients, NULL), 0);
    bi_server_run(server);
    pthread_join(thread, NULL);
    unlink(address.sun_path);
    left_behind = server->cq;
    bi_server_free(server);
}
