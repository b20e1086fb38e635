// Workers on hosts whose /dev/shm is small, read-only or missing, as in containers.
#include "actors/transport/fabric/shared_memory.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include "actors/transport/fabric/ucx_worker.hpp"

namespace troupe::wire {
namespace {

struct nobody : ucx_worker::handler {
  bool arrived(const ucx_worker::arrival&) override { return false; }
};

ucx_settings over_tcp() {
  ucx_settings settings;
  settings.net_devices = "lo";
  return settings;
}

class shared_memory_test : public ::testing::Test {
 protected:
  /// Gives this process its own /dev/shm.
  /// @returns false if it lacks the rights for that
  static bool mount_over(unsigned long flags, const char* options) {
    return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0
           && ::mount("tmpfs", "/dev/shm", "tmpfs", flags, options) == 0;
  }

  nobody owner_;
};

TEST_F(shared_memory_test, a_worker_for_the_network_starts_where_it_is_read_only) {
  if (!mount_over(MS_RDONLY, nullptr))
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  EXPECT_NO_THROW(ucx_worker(over_tcp(), owner_));
  EXPECT_EQ(shared_memory_shortage(), "/dev/shm cannot be used: Read-only file system");
}

TEST_F(shared_memory_test, a_worker_for_the_network_starts_where_there_is_a_mebibyte_of_it) {
  if (!mount_over(0, "size=1m"))
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  EXPECT_NO_THROW(ucx_worker(over_tcp(), owner_));
  EXPECT_EQ(shared_memory_shortage(), "/dev/shm has 1 MiB left, and a peer needs 24 MiB");
}

TEST_F(shared_memory_test, two_peers_find_room_in_what_docker_gives) {
  if (!mount_over(0, "size=64m"))
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  ucx_settings settings;
  settings.shared_memory = true;
  const ucx_worker first{settings, owner_};
  EXPECT_EQ(shared_memory_shortage(), "");
  const ucx_worker second{settings, owner_};
  EXPECT_EQ(std::filesystem::space("/dev/shm").available >> 20, 31U);
}

TEST(shared_memory_shortage, names_a_folder_that_is_not_there) {
  EXPECT_EQ(shared_memory_shortage("/nowhere/shm"), "/nowhere/shm cannot be used: No such file or directory");
}

} // namespace
} // namespace troupe::wire
