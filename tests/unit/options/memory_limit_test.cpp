// Memory limits of cgroups, in a test's root.
#include "services/options/memory_limit.hpp"

#include <cstdint>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/options/cgroup_root.hpp"

namespace troupe {
namespace {

class memory_limit_test : public cgroup_root {
 protected:
  std::optional<std::uint64_t> limit() const { return find_memory_limit(root_); }
};

TEST_F(memory_limit_test, is_that_of_the_own_cgroup) {
  mount_v2("/service");
  write("sys/fs/cgroup/service/memory.max", "8589934592\n");
  EXPECT_EQ(limit(), std::uint64_t{8} << 30U);
}

TEST_F(memory_limit_test, is_found_at_the_root_of_a_container) {
  mount_v2("/");
  write("sys/fs/cgroup/memory.max", "314572800\n");
  EXPECT_EQ(limit(), std::uint64_t{300} << 20U);
}

TEST_F(memory_limit_test, is_the_least_of_all_cgroups_above) {
  mount_v2("/pods/pod/container");
  write("sys/fs/cgroup/pods/memory.max", "800000000\n");
  write("sys/fs/cgroup/pods/pod/memory.max", "500000000\n");
  write("sys/fs/cgroup/pods/pod/container/memory.max", "max\n");
  EXPECT_EQ(limit(), 500000000U);
}

TEST_F(memory_limit_test, is_absent_without_a_limit) {
  EXPECT_EQ(limit(), std::nullopt) << "no /proc";
  mount_v2("/service");
  EXPECT_EQ(limit(), std::nullopt) << "no memory controller";
  write("sys/fs/cgroup/service/memory.max", "max\n");
  EXPECT_EQ(limit(), std::nullopt);
  write("sys/fs/cgroup/service/memory.max", "nonsense\n");
  EXPECT_EQ(limit(), std::nullopt);
}

TEST_F(memory_limit_test, of_version_1_is_read_too) {
  mount_v1("memory", "/", "/a/b");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), std::nullopt) << "what version 1 writes for none";
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700000000\n");
  write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "900000000\n");
  EXPECT_EQ(limit(), 700000000U);
}

TEST_F(memory_limit_test, is_absent_where_the_machine_has_less) {
  mount_v2("/service");
  write("sys/fs/cgroup/service/memory.max", "2097152000\n");
  write("proc/meminfo", "MemTotal:        1024000 kB\nMemFree: 12 kB\n");
  EXPECT_EQ(limit(), std::nullopt);
  write("proc/meminfo", "MemTotal:        4096000 kB\nMemFree: 12 kB\n");
  EXPECT_EQ(limit(), 2097152000U);
}

} // namespace
} // namespace troupe
