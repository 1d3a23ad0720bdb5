/* SPDX-License-Identifier: MIT */
/*
 * protocol_lines.c - the custom mutator of the targets that read the protocol (conn, parse).
 *
 * One mutation in three inserts a valid command, so that these targets need no seed files.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed);

static const char *const fuzz_lines[] = {
    "put 1 0 60 3\r\nabc\r\n",
    "put 0 0 60 3 key=k%41 conflict=replace retries=1 backoff=1ms,5m retain=1h\r\nabc\r\n",
    "put 0 0 60 0 expires=1h hold=retained\r\n\r\n",
    "put 2 1h 5m 5000\r\n",
    "put 2 0 5m 70000\r\n",
    "put 0 0 60 3 at=1\r\nabcd\r\n",
    "put-many 2 30\r\n0 0 60 3\r\nabc\r\n1 0 60 2 key=a\r\nde\r\n\r\n",
    "put-many 1 18\r\n0 0 60 1 tube=a\r\nx\r\n\r\n",
    "finish-and-put 1 1 13\r\n0 0 60 1\r\nx\r\n\r\n",
    "finish-and-put 1 1 30 end=done result=2\r\nok\r\n0 0 60 1 tube=a key=k\r\nx\r\n\r\n",
    "lease 1 finish-and-put 1 1 13 end=release pri=5 delay=1h\r\n0 0 60 1\r\nx\r\n\r\n",
    "finish-and-put 1 1 13 end=bury reason=no%20use\r\n0 0 60 1\r\nx\r\n\r\n",
    "reserve\r\n",
    "reserve-with-timeout 0\r\n",
    "reserve-with-timeout 100\r\n",
    "reserve-many 3 0\r\n",
    "reserve-many 3 100\r\n",
    "reserve-job 1\r\n",
    "delete 1\r\n",
    "release 1 0 0\r\n",
    "release 2 5 1h\r\n",
    "bury 1 0\r\n",
    "touch 1\r\n",
    "done 1 3 retain=1h\r\nabc\r\n",
    "fail 1 3 retry=1h\r\nabc\r\n",
    "lease 1 touch 1\r\n",
    "lease 2 done 1 2\r\nok\r\n",
    "use a\r\n",
    "use default\r\n",
    "watch a\r\n",
    "watch b\r\n",
    "ignore default\r\n",
    "ignore a\r\n",
    "kick 5\r\n",
    "kick -1\r\n",
    "kick-job 1\r\n",
    "peek 1\r\n",
    "peek-ready\r\n",
    "peek-delayed\r\n",
    "peek-buried\r\n",
    "stats\r\n",
    "stats-job 1\r\n",
    "stats-tube a\r\n",
    "list-tubes\r\n",
    "list-tube-used\r\n",
    "list-tubes-watched\r\n",
    "pause-tube a 100\r\n",
    "pause-tube default 0\r\n",
    "result 1\r\n",
    "result 1 100\r\n",
    "update 1 pri=5 ttr=0 tube=b\r\n",
    "cancel 1\r\n",
    "list-jobs * any 10 key=a text=b min-age=0 max-age=1d cursor=1\r\n",
    "schedule-set 2\r\n{}\r\n",
    "schedule-get a\r\n",
    "schedule-list 10 cursor=a\r\n",
    "schedule-remove a\r\n",
    "schedule-run a\r\n",
    "schedule-next a 10\r\n",
    "purge-tube a buried\r\n",
    "auth secret\r\n",
    "call 5 ping 0\r\n\r\n",
    "call 6 stats 0\r\n\r\n",
    "call 7 nothing 3\r\nabc\r\n",
    "call-cancel 5\r\n",
    "quit\r\n",
};

/* Inserts one of the lines somewhere in the data. Returns the new size, or 0 if the line does not fit. */
static size_t fuzz_insert(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
    const char *line = fuzz_lines[seed % (sizeof(fuzz_lines) / sizeof(fuzz_lines[0]))];
    size_t added = strlen(line);
    size_t at = size == 0 ? 0 : (seed >> 8) % (size + 1);
    if (size + added > max)
        return 0;
    memmove(data + at + added, data + at, size - at);
    memcpy(data + at, line, added);
    return size + added;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
    size_t longer = seed % 3 == 0 ? fuzz_insert(data, size, max, seed / 3) : 0;
    return longer > 0 ? longer : LLVMFuzzerMutate(data, size, max);
}
