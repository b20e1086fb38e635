#include "services/expert/expert_room.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "kernels/model/error.hpp"

namespace troupe {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// 3 layers of 8 experts with 2 MiB each.
class sized_experts : public model::expert_backend {
 public:
  explicit sized_experts(std::optional<std::size_t> room) : room_(room) {
    model::moe_spec moe;
    moe.num_experts = 8;
    model::layer_spec layer;
    layer.mlp = moe;
    config_.layers.assign(3, layer);
  }

  const model::model_config& config() const override { return config_; }

  kernels::dtype type() const override { return kernels::dtype::bf16; }

  void load(std::size_t, std::size_t) override {}

  bool unload(std::size_t, std::size_t) override { return false; }

  std::size_t num_bytes() const override { return 0; }

  std::size_t expert_bytes(std::size_t) const override { return 2 * mebibyte; }

  std::optional<std::size_t> room() const override { return room_; }

  std::optional<std::size_t> forward(std::size_t, std::span<const model::expert_rows>) override { return {}; }

 private:
  model::model_config config_;
  std::optional<std::size_t> room_;
};

TEST(expert_room_test, is_what_was_asked_for_or_what_the_device_has) {
  for (const bool is_alone : {true, false}) {
    EXPECT_EQ(expert_room_of(sized_experts(std::nullopt), 0, is_alone), 0U) << "the host's: no limit";
    EXPECT_EQ(expert_room_of(sized_experts(std::nullopt), 7, is_alone), 7U);
    EXPECT_EQ(expert_room_of(sized_experts(48 * mebibyte), 0, is_alone), 48 * mebibyte);
    EXPECT_EQ(expert_room_of(sized_experts(10 * mebibyte), 7, is_alone), 7U);
  }
}

TEST(expert_room_test, who_is_alone_has_to_have_room_for_all) {
  const sized_experts narrow(47 * mebibyte);
  EXPECT_EQ(expert_room_of(narrow, 0, false), 47 * mebibyte) << "others hold the rest";
  try {
    expert_room_of(narrow, 0, true);
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
