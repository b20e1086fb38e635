#include "services/expert/expert_room.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"
#include "kernels/model/error.hpp"

namespace troupe {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// 3 layers of 8 experts with 2 MiB each.
class sized_experts : public model::expert_backend {
 public:
  explicit sized_experts(std::optional<std::size_t> room,
                         model::expert_residence place = model::expert_residence::process)
      : room_(room), place_(place) {
    model::route_op route;
    route.experts.num_experts = 8;
    config_.layers.assign(3, {{route}});
    config_.hidden = 64; // rows of 128 bytes: 65,536 of them in and out take 16 MiB
  }

  const model::model_config& config() const override { return config_; }

  kernels::dtype type() const override { return kernels::dtype::bf16; }

  void load(std::size_t, std::size_t) override {}

  bool unload(std::size_t, std::size_t) override { return false; }

  std::size_t num_bytes() const override { return 0; }

  std::size_t expert_bytes(std::size_t) const override { return 2 * mebibyte; }

  std::size_t usual_expert_bytes(std::size_t) const override { return usual * mebibyte; }

  std::size_t usual = 2; ///< MiB

  model::expert_residence place() const override { return place_; }

  std::optional<std::size_t> room() const override { return room_; }

  std::optional<std::size_t> forward(std::size_t, std::span<const model::expert_rows>) override { return {}; }

 private:
  model::model_config config_;
  std::optional<std::size_t> room_;
  model::expert_residence place_;
};

const memory_budget no_limit{std::nullopt};

memory_budget limit_of(std::uint64_t mebibytes) {
  return memory_budget(mebibytes * mebibyte);
}

TEST(expert_room_test, is_what_was_asked_for_or_what_the_device_has) {
  for (const bool is_alone : {true, false}) {
    EXPECT_EQ(expert_room_of(sized_experts(std::nullopt), {.is_alone = is_alone}, no_limit), 0U)
        << "no limit";
    EXPECT_EQ(expert_room_of(sized_experts(std::nullopt), {.wanted = 7, .is_alone = is_alone}, no_limit), 7U);
    const sized_experts on_device(48 * mebibyte, model::expert_residence::device);
    EXPECT_EQ(expert_room_of(on_device, {.is_alone = is_alone}, limit_of(65)), 48 * mebibyte)
        << "the host's limit is not the device's";
    EXPECT_EQ(expert_room_of(on_device, {.wanted = 7, .is_alone = is_alone}, limit_of(65)), 7U);
  }
}

// 300 MiB: 64 for the program, 16 for rows, 8 for experts on the way; of 212 a seventeenth may be rounding.
TEST(expert_room_test, follows_from_a_memory_limit) {
  constexpr std::uint64_t left = 212 * mebibyte;
  for (const auto place : {model::expert_residence::process, model::expert_residence::page_cache})
    EXPECT_EQ(expert_room_of(sized_experts(std::nullopt, place), {}, limit_of(300)), left / 17 * 16);
  auto shared = limit_of(400);
  shared.take(100 * mebibyte);
  EXPECT_EQ(expert_room_of(sized_experts(std::nullopt), {}, shared), left / 17 * 16);
}

TEST(expert_room_test, is_refused_where_the_limit_leaves_none) {
  const sized_experts experts(std::nullopt);
  try {
    expert_room_of(experts, {}, limit_of(76));
    FAIL() << "it could hold nothing";
  } catch (const model::model_error& error) {
    EXPECT_EQ(
        std::string{error.what()},
        "the memory limit of the cgroup is 76 MiB, of which the program takes 64 MiB and rows on their "
        "way 17 MiB: that leaves 0 MiB for experts, of which one takes 2 MiB; raise the limit, or choose "
        "--expert-quant");
  }
  EXPECT_EQ(expert_room_of(experts, {.wanted = 236 * mebibyte}, limit_of(300)), 236 * mebibyte);
  try {
    expert_room_of(experts, {.wanted = 238 * mebibyte}, limit_of(300));
    FAIL() << "it would be killed";
  } catch (const model::model_error& error) {
    EXPECT_EQ(
        std::string{error.what()},
        "--expert-memory is 238 MiB, and the memory limit of the cgroup is 300 MiB, of which the program "
        "takes 64 MiB: that leaves 236 MiB; lower it, or raise the limit");
  }
}

// 64 + 2 + 8 MiB beside 48 of experts, which may become 51.
TEST(expert_room_test, of_one_that_is_alone_is_for_all_or_refused) {
  EXPECT_EQ(expert_room_of(sized_experts(std::nullopt), {.is_alone = true}, limit_of(125)), 0U) << "all";
  EXPECT_THROW(expert_room_of(sized_experts(std::nullopt), {.is_alone = true}, limit_of(124)),
               model::model_error);
}

TEST(expert_room_test, coded_experts_are_not_refused_for_what_they_would_take_plain) {
  sized_experts coded(std::nullopt);
  coded.usual = 1; // 24 MiB of all, which may become 25.5
  EXPECT_EQ(expert_room_of(coded, {.is_alone = true}, limit_of(100)), 0U);
  EXPECT_THROW(expert_room_of(coded, {.is_alone = true}, limit_of(99)), model::model_error);
  EXPECT_EQ(expert_room_of(coded, {.wanted = 400 * mebibyte}, limit_of(300)), 400 * mebibyte);
  EXPECT_EQ(expert_room_of(coded, {}, limit_of(300)), 212 * mebibyte / 17 * 16) << "among others it is safe";
}

TEST(expert_room_test, rows_that_wait_take_no_more_than_an_eighth_of_the_limit) {
  const auto sizes = sizes_of_experts(sized_experts(std::nullopt));
  EXPECT_EQ(queued_rows_within(no_limit, sizes, false), defaults::max_queued_expert_rows);
  EXPECT_EQ(queued_rows_within(limit_of(128), sizes, false), defaults::max_queued_expert_rows);
  EXPECT_EQ(queued_rows_within(limit_of(64), sizes, false), defaults::max_queued_expert_rows / 2);
  EXPECT_EQ(queued_rows_within(limit_of(1), sizes, false), 8 * defaults::max_num_batched_tokens);
  EXPECT_EQ(expert_reserve(limit_of(64), sizes, false), 16 * mebibyte) << "8 of rows, 8 of experts";
  EXPECT_EQ(queued_rows_within(limit_of(128), sizes, true), 16 * defaults::max_num_batched_tokens);
}

TEST(expert_room_test, of_mapped_weights_may_be_more_than_the_limit) {
  const sized_experts mapped(std::nullopt, model::expert_residence::page_cache);
  EXPECT_EQ(expert_room_of(mapped, {.is_alone = true}, limit_of(70)), 0U);
  EXPECT_EQ(expert_room_of(mapped, {.wanted = 500 * mebibyte}, limit_of(100)), 500 * mebibyte);
  EXPECT_THROW(expert_room_of(mapped, {.wanted = 500 * mebibyte, .from_workers = true}, limit_of(100)),
               model::model_error)
      << "what other workers send is in no file";
}

TEST(expert_room_test, who_is_alone_has_to_have_room_for_all) {
  const sized_experts narrow(47 * mebibyte, model::expert_residence::device);
  EXPECT_EQ(expert_room_of(narrow, {}, no_limit), 47 * mebibyte) << "others hold the rest";
  try {
    expert_room_of(narrow, {.is_alone = true}, no_limit);
    FAIL() << "it cannot serve";
  } catch (const model::model_error& error) {
    EXPECT_EQ(
        std::string{error.what()},
        "the GPU has room for 47 MiB of experts, and all 24 take 48 MiB; choose --gpu-expert-memory, so "
        "that some wait in the host's memory, or --expert-quant");
  }
}

} // namespace
} // namespace troupe
