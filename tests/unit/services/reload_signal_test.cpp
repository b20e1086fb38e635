#include "services/startup/reload_signal.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace troupe {
namespace {

TEST(reload_signal_test, every_signal_calls_all_callbacks_in_order) {
  reload_signal reload(process_log("test"));
  std::vector<int> calls;
  std::promise<void> done;
  auto first = reload.add([&] { calls.push_back(1); });
  auto second = reload.add([&] {
    calls.push_back(2);
    if (calls.size() == 4)
      done.set_value();
    else
      kill(getpid(), SIGHUP);
  });
  kill(getpid(), SIGHUP);
  done.get_future().wait();
  EXPECT_EQ(calls, (std::vector<int>{1, 2, 1, 2}));
}

TEST(reload_signal_test, a_changed_file_is_read_again_without_a_signal) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("reload_signal_test." + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "first");
  std::filesystem::create_directories(folder / "second");
  std::ofstream(folder / "first/keys") << "one";
  std::ofstream(folder / "second/keys") << "two";
  std::filesystem::create_directory_symlink("first", folder / "data");
  reload_signal reload(process_log("test"));
  std::vector<std::string> read;
  std::promise<void> other, gone, back;
  auto again = reload.add([&, file = folder / "data/keys"] {
    std::string text;
    std::ifstream(file) >> text;
    read.push_back(text);
    (read.size() == 1 ? other : read.size() == 2 ? gone : back).set_value();
  });
  auto files = reload_signal::look_at({folder / "data/keys"});
  // Like Kubernetes' renewal of a mounted Secret: the name refers to another folder. Here, before anything
  // watches.
  std::filesystem::create_directory_symlink("second", folder / "next");
  std::filesystem::rename(folder / "next", folder / "data");
  reload.watch(std::move(files), std::chrono::milliseconds{1});
  other.get_future().wait();
  std::filesystem::remove(folder / "second/keys");
  gone.get_future().wait();
  std::ofstream(folder / "new") << "three";
  std::filesystem::rename(folder / "new", folder / "second/keys");
  back.get_future().wait();
  again.reset(); // the folder is removed next, which is a change, too
  EXPECT_EQ(read, (std::vector<std::string>{"two", "", "three"}));
  std::filesystem::remove_all(folder);
}

TEST(reload_signal_test, what_one_callback_throws_keeps_nothing_from_the_next) {
  reload_signal reload(process_log("test"));
  std::promise<void> done;
  auto bad = reload.add([] { throw std::runtime_error("a broken file"); });
  auto good = reload.add([&] { done.set_value(); });
  testing::internal::CaptureStderr();
  kill(getpid(), SIGHUP);
  done.get_future().wait();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("test reload-failed: a broken file"),
            std::string::npos);
}

TEST(reload_signal_test, tells_whether_all_was_well) {
  reload_signal reload(process_log("test"));
  std::vector<bool> told;
  std::promise<void> done;
  bool broken = true;
  auto file = reload.add([&] {
    if (broken)
      throw std::runtime_error("a broken file");
  });
  auto other = reload.add([] {});
  reload.tell([&](bool good) {
    told.push_back(good);
    if (told.size() == 2) {
      done.set_value();
      return;
    }
    broken = false;
    kill(getpid(), SIGHUP);
  });
  testing::internal::CaptureStderr();
  kill(getpid(), SIGHUP);
  done.get_future().wait();
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(told, (std::vector<bool>{false, true}));
}

TEST(reload_signal_test, a_released_callback_is_not_called) {
  reload_signal reload(process_log("test"));
  bool called = false;
  std::promise<void> done;
  auto released = reload.add([&] { called = true; });
  auto kept = reload.add([&] { done.set_value(); });
  released.reset();
  kill(getpid(), SIGHUP);
  done.get_future().wait();
  EXPECT_FALSE(called);
}

} // namespace
} // namespace troupe
