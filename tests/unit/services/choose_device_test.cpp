// The device for a value of --device, on machines with and without a GPU.
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/model/numerics.hpp"
#include "services/model/compute.hpp"
#include "services/model/gpu_presence.hpp"
#include "tests/reference/random_model.hpp"

namespace troupe {
namespace {

using model::device_kind;

class choose_device_test : public testing::Test {
 protected:
  choose_device_test() { options_.model_dir = folder_.path().string(); }

  /// On a machine with GPUs 0 and 1.
  chosen_device with_gpus(const std::string& device) {
    options_.device = device;
    return choose_device(options_, {.problem =
                                        [](std::uint32_t number) {
                                          return number < 2
                                                     ? std::nullopt
                                                     : std::optional<std::string>{"there are 2 devices"};
                                        },
                                    .is_there = [] { return true; }});
  }

  /// On a machine where CUDA cannot be used.
  /// @param is_there  a GPU, and a build for it, exist all the same
  chosen_device without(const std::string& device, bool is_there = false) {
    options_.device = device;
    return choose_device(options_,
                         {.problem = [](std::uint32_t) { return std::optional<std::string>{"no driver"}; },
                          .is_there = [is_there] { return is_there; }});
  }

  test::scratch_folder folder_;
  model_options options_;
};

TEST_F(choose_device_test, takes_a_gpu_by_itself_only_where_it_can_be_used) {
  EXPECT_EQ(with_gpus("auto").device, (model::device{device_kind::cuda, 0}));
  EXPECT_EQ(without("auto").device, (model::device{device_kind::cpu, 0}));
}

TEST_F(choose_device_test, leaves_weights_that_are_packed_for_the_cpu_to_the_cpu) {
  std::ofstream(folder_.path() / "model.troupe") << "packed";
  EXPECT_EQ(with_gpus("auto").device, (model::device{device_kind::cpu, 0}));
}

TEST_F(choose_device_test, says_why_it_leaves_a_gpu_that_is_there) {
  EXPECT_EQ(without("auto", true).device, (model::device{device_kind::cpu, 0}));
  EXPECT_EQ(without("auto", true).gpu_refused, "no driver");
}

TEST_F(choose_device_test, says_nothing_where_no_gpu_is_left_unused) {
  EXPECT_EQ(without("auto", false).gpu_refused, ""); // there is none
  EXPECT_EQ(with_gpus("auto").gpu_refused, "");      // it is used
  EXPECT_EQ(without("cpu", true).gpu_refused, "");   // no GPU is wanted
  std::ofstream(folder_.path() / "model.troupe") << "packed";
  EXPECT_EQ(without("auto", true).gpu_refused, "");
}

TEST_F(choose_device_test, a_gpu_is_known_by_its_place_on_the_bus) {
  const auto devices = folder_.path() / "devices";
  const auto add = [&](const std::string& name, const std::string& vendor, const std::string& kind) {
    std::filesystem::create_directories(devices / name);
    std::ofstream(devices / name / "vendor") << vendor << '\n';
    std::ofstream(devices / name / "class") << kind << '\n';
  };
  EXPECT_FALSE(has_nvidia_gpu(devices));     // there is no such folder
  add("0000:00:01.0", "0x1a03", "0x030000"); // another's display
  add("0000:00:02.0", "0x10de", "0x068000"); // NVIDIA's switch
  std::filesystem::create_directories(devices / "0000:00:03.0");
  EXPECT_FALSE(has_nvidia_gpu(devices));
  add("0000:00:04.0", "0x10de", "0x030200");
  EXPECT_TRUE(has_nvidia_gpu(devices));
}

TEST_F(choose_device_test, takes_what_it_is_told) {
  EXPECT_EQ(with_gpus("cpu").device, (model::device{device_kind::cpu, 0}));
  EXPECT_EQ(without("cpu").device, (model::device{device_kind::cpu, 0}));
  EXPECT_EQ(with_gpus("cuda").device, (model::device{device_kind::cuda, 0}));
  EXPECT_EQ(with_gpus("cuda:1").device, (model::device{device_kind::cuda, 1}));
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
