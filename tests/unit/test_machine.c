/* SPDX-License-Identifier: MIT */
#include "scratch.h"

#include "server/machine.h"

#include <sys/resource.h>

#define MIB (UINT64_C(1) << 20)

static void machine_of(const char *meminfo, const char *groups)
{
    scratch_write("proc/meminfo", meminfo);
    scratch_write("proc/self/cgroup", groups);
}

static void a_machine_without_groups_has_its_memory(void **state)
{
    (void)state;
    scratch_write("proc/meminfo", "MemFree:  5 kB\nMemTotal:       2048 kB\nBuffers: 7 kB\n");
    assert_int_equal(bi_machine_memory(scratch), 2 * MIB);
}

static void a_limit_of_version_2_counts(void **state)
{
    (void)state;
    machine_of("MemTotal: 1048576 kB\n", "0::/a/b\n");
    scratch_write("sys/fs/cgroup/a/b/memory.max", "104857600\n");
    assert_int_equal(bi_machine_memory(scratch), 100 * MIB);
}

static void a_limit_of_a_group_above_counts(void **state)
{
    (void)state;
    machine_of("MemTotal: 1048576 kB\n", "0::/a/b\n");
    scratch_write("sys/fs/cgroup/a/b/memory.max", "max\n");
    scratch_write("sys/fs/cgroup/a/memory.max", "52428800\n");
    assert_int_equal(bi_machine_memory(scratch), 50 * MIB);
}

static void a_container_sees_its_limit_at_the_top(void **state)
{
    (void)state;
    machine_of("MemTotal: 1048576 kB\n", "0::/../outside/of/us\n");
    scratch_write("sys/fs/cgroup/memory.max", "20971520\n");
    assert_int_equal(bi_machine_memory(scratch), 20 * MIB);
}

static void a_limit_of_version_1_counts(void **state)
{
    (void)state;
    machine_of("MemTotal: 1048576 kB\n",
               "9:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/1\n1:name=systemd:/\n");
    scratch_write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "31457280\n");
    scratch_write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(bi_machine_memory(scratch), 30 * MIB);
}

static void no_limit_and_a_larger_one_than_the_machine_do_not_count(void **state)
{
    (void)state;
    machine_of("MemTotal: 1024 kB\n", "0::/a\n3:memory:/a\n2:memoryless:/a\n");
    scratch_write("sys/fs/cgroup/a/memory.max", "max\n");
    scratch_write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(bi_machine_memory(scratch), MIB);
    scratch_write("sys/fs/cgroup/a/memory.max", "104857600\n");
    assert_int_equal(bi_machine_memory(scratch), MIB);
}

static void what_cannot_be_read_is_no_limit(void **state)
{
    (void)state;
    assert_int_equal(bi_machine_memory(scratch), 0);
    machine_of("nothing\n", "no colons\n:\n0:\n");
    assert_int_equal(bi_machine_memory(scratch), 0);
    assert_true(bi_machine_memory("") > 0);
}

static void files_are_asked_for_up_to_what_is_allowed(void **state)
{
    (void)state;
    struct rlimit before, now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit low = {.rlim_cur = 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(bi_machine_files(10), 20);
    assert_int_equal(bi_machine_files(30), 30);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(now.rlim_cur, 30);
    assert_int_equal(now.rlim_max, before.rlim_max);
}

static void sizes_are_written_for_people(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *want;
    } cases[] = {
        {0, "0"},
        {5, "5B"},
        {65535, "65535B"},
        {65536, "64KiB"},
        {1023 << 10, "1023KiB"},
        {(3 << 20) / 2, "1.5MiB"},
        {256 << 20, "256MiB"},
        {UINT64_C(20221214720), "18.8GiB"},
        {UINT64_C(1) << 42, "4096GiB"},
    };
    char text[BI_SIZE_TEXT];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bi_machine_size(text, cases[i].bytes);
        assert_string_equal(text, cases[i].want);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_machine_without_groups_has_its_memory),
        TEST(a_limit_of_version_2_counts),
        TEST(a_limit_of_a_group_above_counts),
        TEST(a_container_sees_its_limit_at_the_top),
        TEST(a_limit_of_version_1_counts),
        TEST(no_limit_and_a_larger_one_than_the_machine_do_not_count),
        TEST(what_cannot_be_read_is_no_limit),
        TEST(sizes_are_written_for_people),
        TEST(files_are_asked_for_up_to_what_is_allowed),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
