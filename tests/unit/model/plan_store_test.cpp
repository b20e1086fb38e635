#include "kernels/model/plan_store.hpp"

#include "kernels/model/error.hpp"
#include "kernels/plan_text.hpp"
#include "tests/reference/random_model.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <unistd.h>
#include <vector>

namespace troupe::model {
namespace {

kernels::kernel_plan some_plan() {
  auto plan = kernels::default_plan(kernels::isa::portable);
  plan.of(kernels::product_kind::f32).front().tile_panels = 16;
  return plan;
}

class plan_store_test : public testing::Test {
 protected:
  plan_store_test() {
    store_.folder = folder_.path() / "new" / "cache";
    store_.identity = {"some processor", "portable", 2, "f32 16x16"};
    store_.tell = [this](const char* event, const std::string& text) {
      told_.push_back(std::string(event) + ": " + text);
    };
  }

  std::optional<kernels::kernel_plan> find_or_measure() {
    return store_.find_or_measure([this]() -> std::optional<kernels::kernel_plan> {
      ++measured_;
      return some_plan();
    });
  }

  std::string text() const {
    std::ifstream file(store_.file());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void write(const std::string& text) const { std::ofstream(store_.file()) << text; }

  test::scratch_folder folder_;
  plan_store store_;
  int measured_ = 0;
  std::vector<std::string> told_;
};

TEST_F(plan_store_test, measures_once_and_finds_it_again) {
  EXPECT_EQ(store_.find(), std::nullopt);
  EXPECT_EQ(find_or_measure(), some_plan());
  EXPECT_EQ(find_or_measure(), some_plan());
  EXPECT_EQ(store_.find(), some_plan());
  EXPECT_EQ(measured_, 1);
  EXPECT_EQ(told_, std::vector{"kernel-plan-kept: " + store_.file().string()});
}

TEST_F(plan_store_test, another_machine_model_or_thread_count_is_another_plan) {
  find_or_measure();
  const auto identity = store_.identity;
  for (const auto& other : std::vector<plan_identity>{{"other processor", "portable", 2, "f32 16x16"},
                                                      {"some processor", "portable,avx2", 2, "f32 16x16"},
                                                      {"some processor", "portable", 3, "f32 16x16"},
                                                      {"some processor", "portable", 2, "f32 16x32"}}) {
    store_.identity = other;
    EXPECT_EQ(store_.find(), std::nullopt) << other.text();
  }
  store_.identity = identity;
  EXPECT_EQ(store_.find(), some_plan());
}

TEST_F(plan_store_test, a_file_that_is_cut_short_damaged_or_foreign_is_measured_again) {
  find_or_measure();
  const std::string whole = text();
  const std::string other = "# for: another machine";
  const auto line = whole.find('\n') + 1;
  std::string foreign = whole;
  foreign.replace(line, whole.find('\n', line) - line, other);
  std::string damaged = whole;
  damaged.replace(damaged.find("kernel=fma"), 10, "kernel=abc");
  const std::vector<std::string> bad{"",
                                     "\n",
                                     whole.substr(0, whole.size() / 2),
                                     whole.substr(0, line),
                                     whole.substr(0, whole.size() - 4),
                                     foreign,
                                     damaged,
                                     std::string(1 << 20, 'x')};
  for (const auto& text_of_file : bad) {
    SCOPED_TRACE(text_of_file.substr(0, 40));
    told_.clear();
    measured_ = 0;
    write(text_of_file);
    EXPECT_EQ(find_or_measure(), some_plan());
    EXPECT_EQ(measured_, 1);
    ASSERT_EQ(told_.size(), 2U) << "and that the new one is kept";
    EXPECT_TRUE(told_.front().starts_with("kernel-plan-ignored: " + store_.file().string())) << told_.front();
    EXPECT_EQ(text(), whole);
  }
}

TEST_F(plan_store_test, what_could_not_be_measured_is_not_kept) {
  EXPECT_EQ(store_.find_or_measure([] { return std::optional<kernels::kernel_plan>{}; }), std::nullopt);
  EXPECT_EQ(store_.find(), std::nullopt);
}

TEST_F(plan_store_test, a_folder_that_cannot_be_written_to_is_told_of) {
  std::ofstream(folder_.path() / "new") << "no folder";
  EXPECT_EQ(find_or_measure(), some_plan());
  EXPECT_EQ(measured_, 1);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_TRUE(told_.front().starts_with("kernel-plan-not-kept: ")) << told_.front();
}

TEST_F(plan_store_test, who_waits_for_another_process_finds_its_plan_or_gives_up) {
  std::filesystem::create_directories(store_.folder);
  // A lock belongs to an open file, so this one acts as another process's.
  const int other = ::open((store_.folder / "kernel-plan.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(other, 0);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  store_.patience = std::chrono::milliseconds{0};
  EXPECT_EQ(find_or_measure(), std::nullopt);
  EXPECT_EQ(measured_, 0);
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_TRUE(told_[0].starts_with("kernel-plan-awaited: "));
  EXPECT_TRUE(told_[1].starts_with("kernel-plan-default: "));
  // The other one saves its plan and releases the lock once this one waits.
  store_.patience = std::chrono::minutes{5};
  store_.tell = [&](const char* event, const std::string&) {
    if (std::string_view{event} == "kernel-plan-kept")
      return;
    EXPECT_STREQ(event, "kernel-plan-awaited");
    store_.keep(some_plan());
    ::close(other);
  };
  EXPECT_EQ(find_or_measure(), some_plan());
  EXPECT_EQ(measured_, 0);
}

TEST(plan_file, is_read_as_it_was_written_and_says_what_is_wrong) {
  const test::scratch_folder folder;
  const auto file = folder.path() / "plan.txt";
  write_plan(file, some_plan());
  EXPECT_EQ(read_plan(file), some_plan());
  std::ofstream(file) << "troupe kernel plan 1\nset portable\n";
  try {
    read_plan(file);
    FAIL();
  } catch (const model_error& error) {
    EXPECT_EQ(error.what(), file.string() + ": the last line is not 'end': the plan is cut short");
  }
  EXPECT_THROW(read_plan(folder.path()), model_error);
  EXPECT_THROW(read_plan(folder.path() / "none"), model_error);
}

TEST(plan_identity, has_a_processor_and_a_build) {
  EXPECT_NE(processor_identity(), "");
  EXPECT_EQ(kernel_build_id().size(), 16U);
  EXPECT_NE(plan_identity{}.text().find(kernel_build_id()), std::string::npos);
}

} // namespace
} // namespace troupe::model
