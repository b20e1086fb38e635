// A root folder with /proc and /sys as a kernel with cgroups shows them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace troupe {

class cgroup_root : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("troupe-cgroup-" + std::to_string(getpid()));
    std::filesystem::remove_all(root_);
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  /// A machine with only cgroup v2, and this process in its cgroup `path`.
  void mount_v2(const std::string& path) {
    write("proc/self/mountinfo",
          "22 1 0:21 / /proc rw,nosuid - proc proc rw\n"
          "31 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    write("proc/self/cgroup", "0::" + path + "\n");
  }

  /// A machine with cgroup v1 that shows the cgroup `mounted`, and this process in `path`.
  /// @param controllers  of the hierarchy at /sys/fs/cgroup/CONTROLLERS, such as "cpu,cpuacct"
  void mount_v1(const std::string& controllers, const std::string& mounted, const std::string& path) {
    write("proc/self/mountinfo",
          "40 30 0:33 " + mounted + " /sys/fs/cgroup/" + controllers
              + " ro,nosuid master:15 - cgroup cgroup rw," + controllers + "\n41 30 0:34 " + mounted
              + " /sys/fs/cgroup/cpuset ro,nosuid master:16 - cgroup cgroup rw,cpuset\n");
    write("proc/self/cgroup", "12:cpuset:/elsewhere\n4:" + controllers + ":" + path + "\n0::/\n");
  }

  std::filesystem::path root_;
};

} // namespace troupe
