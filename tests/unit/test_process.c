/* SPDX-License-Identifier: MIT */
#include "scratch.h"

#include "server/process.h"

#include <sys/resource.h>

#define MIB (UINT64_C(1) << 20)

static void write_sysinfo(const char *meminfo, const char *groups)
{
    scratch_write("proc/meminfo", meminfo);
    scratch_write("proc/self/cgroup", groups);
}

static void machine_without_cgroups_has_all_memory(void **state)
{
    (void)state;
    scratch_write("proc/meminfo", "MemFree:  5 kB\nMemTotal:       2048 kB\nBuffers: 7 kB\n");
    assert_int_equal(bi_process_memory_limit(scratch), 2 * MIB);
}

static void cgroup_v2_limit_applies(void **state)
{
    (void)state;
    write_sysinfo("MemTotal: 1048576 kB\n", "0::/a/b\n");
    scratch_write("sys/fs/cgroup/a/b/memory.max", "104857600\n");
    assert_int_equal(bi_process_memory_limit(scratch), 100 * MIB);
}

static void limit_of_a_parent_cgroup_applies(void **state)
{
    (void)state;
    write_sysinfo("MemTotal: 1048576 kB\n", "0::/a/b\n");
    scratch_write("sys/fs/cgroup/a/b/memory.max", "max\n");
    scratch_write("sys/fs/cgroup/a/memory.max", "52428800\n");
    assert_int_equal(bi_process_memory_limit(scratch), 50 * MIB);
}

static void container_limit_is_at_the_cgroup_root(void **state)
{
    (void)state;
    write_sysinfo("MemTotal: 1048576 kB\n", "0::/../outside/of/us\n");
    scratch_write("sys/fs/cgroup/memory.max", "20971520\n");
    assert_int_equal(bi_process_memory_limit(scratch), 20 * MIB);
}

static void cgroup_v1_limit_applies(void **state)
{
    (void)state;
    write_sysinfo("MemTotal: 1048576 kB\n",
                  "9:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/1\n1:name=systemd:/\n");
    scratch_write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "31457280\n");
    scratch_write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(bi_process_memory_limit(scratch), 30 * MIB);
}

static void no_limit_and_a_larger_one_than_the_machine_do_not_count(void **state)
{
    (void)state;
    write_sysinfo("MemTotal: 1024 kB\n", "0::/a\n3:memory:/a\n2:memoryless:/a\n");
    scratch_write("sys/fs/cgroup/a/memory.max", "max\n");
    scratch_write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(bi_process_memory_limit(scratch), MIB);
    scratch_write("sys/fs/cgroup/a/memory.max", "104857600\n");
    assert_int_equal(bi_process_memory_limit(scratch), MIB);
}

static void unreadable_limit_is_ignored(void **state)
{
    (void)state;
    assert_int_equal(bi_process_memory_limit(scratch), 0);
    write_sysinfo("nothing\n", "no colons\n:\n0:\n");
    assert_int_equal(bi_process_memory_limit(scratch), 0);
    assert_true(bi_process_memory_limit("") > 0);
}

static void file_limit_is_raised_as_far_as_allowed(void **state)
{
    (void)state;
    struct rlimit before, now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit low = {.rlim_cur = 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(bi_process_raise_file_limit(10), 20);
    assert_int_equal(bi_process_raise_file_limit(30), 30);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(now.rlim_cur, 30);
    assert_int_equal(now.rlim_max, before.rlim_max);
}

static void sizes_are_human_readable(void **state)
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
        bi_process_format_size(text, cases[i].bytes);
        assert_string_equal(text, cases[i].want);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(machine_without_cgroups_has_all_memory),
        TEST(cgroup_v2_limit_applies),
        TEST(limit_of_a_parent_cgroup_applies),
        TEST(container_limit_is_at_the_cgroup_root),
        TEST(cgroup_v1_limit_applies),
        TEST(no_limit_and_a_larger_one_than_the_machine_do_not_count),
        TEST(unreadable_limit_is_ignored),
        TEST(sizes_are_human_readable),
        TEST(file_limit_is_raised_as_far_as_allowed),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
