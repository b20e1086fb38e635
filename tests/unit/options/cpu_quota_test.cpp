// CPU quotas of cgroups, in a test's root.
#include "services/options/cpu_quota.hpp"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/options/cgroup_root.hpp"

namespace troupe {
namespace {

class cpu_quota_test : public cgroup_root {
 protected:
  void write_v1(const std::string& cgroup, const std::string& quota, const std::string& period) {
    write("sys/fs/cgroup/cpu,cpuacct" + cgroup + "/cpu.cfs_quota_us", quota + "\n");
    write("sys/fs/cgroup/cpu,cpuacct" + cgroup + "/cpu.cfs_period_us", period + "\n");
  }

  std::optional<double> quota() const { return find_cpu_quota(root_); }
};

TEST_F(cpu_quota_test, is_that_of_the_own_cgroup) {
  mount_v2("/service");
  write("sys/fs/cgroup/service/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

// A container's own cgroup is the visible root.
TEST_F(cpu_quota_test, is_found_at_the_root_of_a_container) {
  mount_v2("/");
  write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4.0);
}

TEST_F(cpu_quota_test, is_the_least_of_all_cgroups_above) {
  mount_v2("/pods/pod/container");
  write("sys/fs/cgroup/pods/cpu.max", "800000 100000\n");
  write("sys/fs/cgroup/pods/pod/cpu.max", "50000 20000\n");
  write("sys/fs/cgroup/pods/pod/container/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 2.5);
}

TEST_F(cpu_quota_test, is_absent_without_a_limit) {
  EXPECT_EQ(quota(), std::nullopt) << "no /proc";
  mount_v2("/service");
  EXPECT_EQ(quota(), std::nullopt) << "no cpu controller";
  write("sys/fs/cgroup/service/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/service/cpu.max", "nonsense\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/service/cpu.max", "100000 0\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(cpu_quota_test, of_version_1_is_read_too) {
  mount_v1("cpu,cpuacct", "/", "/a/b");
  write_v1("", "-1", "100000");
  write_v1("/a", "300000", "100000");
  write_v1("/a/b", "-1", "100000");
  EXPECT_EQ(quota(), 3.0);
}

// Docker without a cgroup namespace: the path is the host's, the mount is the container's own.
TEST_F(cpu_quota_test, of_version_1_is_found_below_what_a_container_sees) {
  mount_v1("cpu,cpuacct", "/docker/1234", "/docker/1234/inner");
  write_v1("", "200000", "100000");
  write_v1("/inner", "100000", "200000");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(cpu_quota_test, is_looked_for_at_the_mount_where_the_path_leads_out_of_it) {
  mount_v1("cpu,cpuacct", "/docker/1234", "/");
  write_v1("", "200000", "100000");
  EXPECT_EQ(quota(), 2.0);
}

TEST(processors_within, are_rounded_up_and_at_least_one) {
  EXPECT_EQ(processors_within(0.1), 1U);
  EXPECT_EQ(processors_within(1.0), 1U);
  EXPECT_EQ(processors_within(1.5), 2U);
  EXPECT_EQ(processors_within(16.0), 16U);
  EXPECT_EQ(processors_within(std::nullopt), std::nullopt);
}

} // namespace
} // namespace troupe
