// Which device --device means, on machines with and without a GPU.
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/model/numerics.hpp"
#include "services/process/compute.hpp"
#include "tests/reference/random_model.hpp"

namespace troupe {
namespace {

using model::device_kind;

class choose_device_test : public testing::Test {
 protected:
  choose_device_test() { options_.model_dir = folder_.path().string(); }

  /// On a machine with GPUs 0 and 1.
  model::device with_gpus(const std::string& device) {
    options_.device = device;
    return choose_device(options_, [](uint32_t number) {
      return number < 2 ? std::nullopt : std::optional<std::string>{"there are 2 devices"};
    });
  }

  /// Where CUDA cannot be used.
  model::device without(const std::string& device) {
    options_.device = device;
    return choose_device(options_, [](uint32_t) { return std::optional<std::string>{"no driver"}; });
  }

  test::scratch_folder folder_;
  model_options options_;
};

TEST_F(choose_device_test, takes_a_gpu_by_itself_only_where_it_can_be_used) {
  EXPECT_EQ(with_gpus("auto"), (model::device{device_kind::cuda, 0}));
  EXPECT_EQ(without("auto"), (model::device{device_kind::cpu, 0}));
}

TEST_F(choose_device_test, leaves_weights_that_are_packed_for_the_cpu_to_the_cpu) {
  std::ofstream(folder_.path() / "model.troupe") << "packed";
  EXPECT_EQ(with_gpus("auto"), (model::device{device_kind::cpu, 0}));
}

TEST_F(choose_device_test, takes_what_it_is_told) {
  EXPECT_EQ(with_gpus("cpu"), (model::device{device_kind::cpu, 0}));
  EXPECT_EQ(without("cpu"), (model::device{device_kind::cpu, 0}));
  EXPECT_EQ(with_gpus("cuda"), (model::device{device_kind::cuda, 0}));
  EXPECT_EQ(with_gpus("cuda:1"), (model::device{device_kind::cuda, 1}));
}

TEST_F(choose_device_test, says_why_a_gpu_cannot_be_used) {
  const auto refusal = [](const auto& choose) -> std::string {
    try {
      choose();
      return "accepted";
    } catch (const option_error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal([&] { without("cuda"); }), "--device: 'cuda': no driver");
  EXPECT_EQ(refusal([&] { with_gpus("cuda:2"); }), "--device: 'cuda:2': there are 2 devices");
}

TEST_F(choose_device_test, the_numerics_class_begins_with_the_kind_of_device) {
  const auto on = [](device_kind kind) { return model::numerics_class(kernels::dtype::bf16, {}, {}, kind); };
  EXPECT_TRUE(on(device_kind::cpu).starts_with("cpu-"));
  EXPECT_TRUE(on(device_kind::cuda).starts_with("cuda-sm90/bf16/none/"));
}

} // namespace
} // namespace troupe
