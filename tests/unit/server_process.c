/* SPDX-License-Identifier: MIT */
#include "server_process.h"

const struct server_limits server_process_limits = {.max_connections = 1000,
                                                    .stop_timeout_ms = INT64_C(600000),
                                                    .max_client_bytes = (uint64_t)72 << 20};

static int server_process_child(int fd, const char *url, const bide_options *options,
                                const struct server_limits *limits)
{
    struct server_settings settings = {.limits = *limits};
    struct server *server;
    char error[BIDE_ERROR_SIZE];
    if (bide_open(url, options, &settings.queue) != BIDE_OK)
        return 2;
    if (bi_server_new(&settings, &server, error) != BIDE_OK)
        return 3;
    if (bi_server_listen(server, &bi_beanstalk_protocol, fd, error) != BIDE_OK)
        return 4;
    bi_server_run(server);
    bi_server_free(server);
    return bide_close(settings.queue) == BIDE_OK ? 0 : 5;
}

void server_process_start_with(struct server_process *server_process, const char *url,
                               const bide_options *options, const struct server_limits *limits)
{
    char resolved[200];
    server_process->stop_sent = false;
    strcpy(server_process->folder, "/tmp/bide-serving-XXXXXX");
    assert_non_null(mkdtemp(server_process->folder));
    const char *mark = strstr(url, "%s");
    if (mark == NULL)
        snprintf(resolved, sizeof(resolved), "%s", url);
    else
        snprintf(resolved, sizeof(resolved), "%.*s%s%s", (int)(mark - url), url,
                 server_process->folder, mark + 2);
    server_process->address.sun_family = AF_UNIX;
    snprintf(server_process->address.sun_path, sizeof(server_process->address.sun_path),
             "%s/socket", server_process->folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        bind(fd, (struct sockaddr *)&server_process->address, sizeof(server_process->address)), 0);
    assert_int_equal(listen(fd, 100), 0);
    fflush(NULL);
    server_process->pid = fork();
    assert_true(server_process->pid >= 0);
    if (server_process->pid == 0)
        exit(server_process_child(fd, resolved, options, limits));
    close(fd);
}

void server_process_start(struct server_process *server_process, const char *url)
{
    static const bide_options options = BIDE_OPTIONS_INIT;
    server_process_start_with(server_process, url, &options, &server_process_limits);
}

static void server_process_clean(const struct server_process *server_process)
{
    char path[400];
    DIR *folder = opendir(server_process->folder);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof(path), "%s/%s", server_process->folder, entry->d_name);
        unlink(path);
    }
    closedir(folder);
    assert_int_equal(rmdir(server_process->folder), 0);
}

void server_process_send_stop(struct server_process *server_process)
{
    if (!server_process->stop_sent)
        assert_int_equal(kill(server_process->pid, SIGTERM), 0);
    server_process->stop_sent = true;
}

void server_process_stop(struct server_process *server_process)
{
    int status = -1;
    pid_t ended = 0;
    server_process_send_stop(server_process);
    for (int i = 0; i < PATIENCE_S * 100 && ended == 0; i++) {
        ended = waitpid(server_process->pid, &status, WNOHANG);
        if (ended == 0)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (ended == 0) {
        kill(server_process->pid, SIGKILL);
        waitpid(server_process->pid, &status, 0);
    }
    server_process_clean(server_process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

struct client client_open(const struct server_process *server_process)
{
    struct client client = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    assert_true(client.fd >= 0);
    setsockopt(client.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(client.fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    assert_int_equal(connect(client.fd, (const struct sockaddr *)&server_process->address,
                             sizeof(server_process->address)),
                     0);
    return client;
}

void client_close(struct client *client)
{
    close(client->fd);
    free(client->data);
    *client = (struct client){.fd = -1};
}

void client_send(struct client *client, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(client->fd, at, size, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += sent;
        size -= (size_t)sent;
    }
}

bool client_receive(struct client *client)
{
    if (client->room - client->size < 4096) {
        client->room = client->room * 2 + 65536;
        client->data = realloc(client->data, client->room);
        assert_non_null(client->data);
    }
    ssize_t got = recv(client->fd, client->data + client->size, client->room - client->size - 1, 0);
    assert_true(got >= 0);
    client->size += (size_t)got;
    client->data[client->size] = 0;
    return got > 0;
}

void client_consume(struct client *client, size_t size)
{
    memmove(client->data, client->data + size, client->size - size + 1);
    client->size -= size;
}

void client_line(struct client *client, char *line, size_t room)
{
    char *end = client->size == 0 ? NULL : strstr(client->data, "\r\n");
    while (end == NULL) {
        assert_true(client_receive(client));
        end = strstr(client->data, "\r\n");
    }
    size_t size = (size_t)(end - client->data);
    assert_true(size < room);
    memcpy(line, client->data, size);
    line[size] = 0;
    client_consume(client, size + 2);
}

void client_expect(struct client *client, const char *expected)
{
    char line[300];
    client_line(client, line, sizeof(line));
    assert_string_equal(line, expected);
}

void client_send_line(struct client *client, const char *line)
{
    client_send(client, line, strlen(line));
    client_send(client, "\r\n", 2);
}
