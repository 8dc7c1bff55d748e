/* Limits of control groups: both versions, nested groups, containers that show their own group as
 * the top, hybrid systems, and no group at all. */
#define _GNU_SOURCE

#include "check.h"
#include "device_files.h"
#include "os/process/group.h"

#define MOUNTS_1                                                                                   \
    "30 20 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"           \
    "31 20 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"

static qn_group read_here(const device_files *files) {
    qn_group group;
    qn_group_read(files->root, &group);
    return group;
}

static void put_group_2(const device_files *files, const char *folder, const char *most,
                        long long now, const char *quota) {
    char path[256];
    snprintf(path, sizeof path, "sys/fs/cgroup%s/memory.max", folder);
    device_files_put(files, path, "%s\n", most);
    snprintf(path, sizeof path, "sys/fs/cgroup%s/memory.current", folder);
    device_files_put(files, path, "%lld\n", now);
    snprintf(path, sizeof path, "sys/fs/cgroup%s/cpu.max", folder);
    device_files_put(files, path, "%s\n", quota);
}

static void test_none(void) {
    const device_files files = device_files_make();
    const qn_group group = read_here(&files);
    CHECK(group.memory_bytes == -1 && group.left_bytes == -1 && group.cpus == 0);
    device_files_remove(&files, "");
}

/* The narrowest of all groups above counts, each limit for itself. */
static void test_nested(void) {
    const device_files files = device_files_make();
    device_files_put(&files, "proc/self/cgroup", "0::/batch/job7/task\n");
    device_files_put(&files, "proc/self/mountinfo",
                     "25 20 0:22 / /proc rw - proc proc rw\n"
                     "35 20 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
    put_group_2(&files, "/batch", "1000000", 900000, "150000 100000");
    put_group_2(&files, "/batch/job7", "500000", 100000, "max 100000");
    put_group_2(&files, "/batch/job7/task", "max", 100000, "400000 100000");
    qn_group group = read_here(&files);
    CHECK(group.memory_bytes == 500000 && group.left_bytes == 100000 && group.cpus == 1.5);
    device_files_put(&files, "sys/fs/cgroup/batch/memory.stat", "anon 5\ninactive_file 350000\n");
    CHECK(read_here(&files).left_bytes == 400000);
    device_files_put(&files, "sys/fs/cgroup/batch/job7/task/memory.high", "200000\n");
    group = read_here(&files);
    CHECK(group.memory_bytes == 200000 && group.left_bytes == 100000);
    put_group_2(&files, "/batch/job7", "500000", 600000, "max 100000");
    CHECK(read_here(&files).left_bytes == 0);
    device_files_remove(&files, "");
}

/* As in a container: the mount shows the group of the container as the top, and /proc names it as
 * the host does, or as "/". */
static void test_container(void) {
    const device_files files = device_files_make();
    static const char *const own[] = {"/docker/f00", "/", "/../../other"};
    static const char *const tops[] = {"/docker/f00", "/", "/"};
    put_group_2(&files, "", "64000000", 4000000, "50000 100000");
    for (int i = 0; i < 3; i++) {
        device_files_put(&files, "proc/self/cgroup", "0::%s\n", own[i]);
        device_files_put(&files, "proc/self/mountinfo",
                         "35 20 0:30 %s /sys/fs/cgroup ro - cgroup2 cgroup rw\n", tops[i]);
        const qn_group group = read_here(&files);
        CHECK(group.memory_bytes == 64000000 && group.left_bytes == 60000000 && group.cpus == 0.5);
    }
    device_files_remove(&files, "proc");
    CHECK(read_here(&files).memory_bytes == 64000000);
    device_files_remove(&files, "");
}

static void test_version_1(void) {
    const device_files files = device_files_make();
    static const char top[] = "sys/fs/cgroup/memory/", job[] = "sys/fs/cgroup/memory/jobs/9/";
    char path[256];
    device_files_put(&files, "proc/self/cgroup",
                     "5:memory:/jobs/9\n4:cpu,cpuacct:/jobs\n1:name=systemd:/x\n0::/\n");
    device_files_put(&files, "proc/self/mountinfo", MOUNTS_1);
    snprintf(path, sizeof path, "%smemory.limit_in_bytes", top);
    device_files_put(&files, path, "9223372036854771712\n"); /* none */
    snprintf(path, sizeof path, "%smemory.limit_in_bytes", job);
    device_files_put(&files, path, "62914560\n");
    snprintf(path, sizeof path, "%smemory.usage_in_bytes", job);
    device_files_put(&files, path, "2914560\n");
    snprintf(path, sizeof path, "%smemory.stat", job);
    device_files_put(&files, path, "inactive_file 7\ntotal_inactive_file 1000000\n");
    device_files_put(&files, "sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "25000\n");
    device_files_put(&files, "sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
    device_files_put(&files, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    device_files_put(&files, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    const qn_group group = read_here(&files);
    CHECK(group.memory_bytes == 62914560 && group.left_bytes == 61000000 && group.cpus == 0.25);
    device_files_remove(&files, "");
}

/* Whatever stands in the files, there is an answer. */
static void test_rubbish(void) {
    static const char *const texts[] = {"", "::::\n", "0::\n", "0::relative\n", "0::/a/b/c\n:::"};
    static const char *const mounts[] = {"", " - \n", "1 2 3 4 5 - cgroup2 x y\n",
                                         "35 20 0:30 / /sys/fs/cgroup rw - cgroup2\n"};
    const device_files files = device_files_make();
    device_files_put(&files, "sys/fs/cgroup/memory.max", "many\n");
    device_files_put(&files, "sys/fs/cgroup/cpu.max", "0 0\n");
    for (int i = 0; i < 20; i++) {
        device_files_put(&files, "proc/self/cgroup", "%s", texts[i % 5]);
        device_files_put(&files, "proc/self/mountinfo", "%s", mounts[i % 4]);
        const qn_group group = read_here(&files);
        CHECK(group.memory_bytes == -1 && group.cpus == 0);
    }
    device_files_remove(&files, "");
}

int main(void) {
    test_none();
    test_nested();
    test_container();
    test_version_1();
    test_rubbish();
    return checks_finish();
}
