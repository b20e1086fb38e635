// The meaning of --device for a model folder, with a GPU, real or emulated.
#include <string>

#include <gtest/gtest.h>

#include "kernels/model/error.hpp"
#include "services/model/compute.hpp"
#include "services/model/model_source.hpp"
#include "tests/reference/random_model.hpp"

namespace troupe {
namespace {

model_source open(const test::random_model& folder, const std::string& device, const std::string& dtype) {
  model_options options;
  options.model_dir = folder.folder().string();
  options.device = device;
  options.dtype = dtype;
  options.kernel_plan = "default";
  return open_model(options);
}

TEST(open_model_on_a_gpu, a_gpu_is_taken_for_what_it_can_compute) {
  const test::random_model folder("qwen3");
  for (const auto* device : {"auto", "cuda", "cuda:0"}) {
    const auto source = open(folder, device, "bfloat16");
    EXPECT_EQ(source.device, (model::device{model::device_kind::cuda, 0})) << device;
    EXPECT_TRUE(source.numerics_class.starts_with("cuda-sm90/bf16/none/")) << source.numerics_class;
    EXPECT_EQ(source.gpu_refused, "");
    kernels::thread_pool pool({.threads = 1, .cores = {}});
    kernels::context ctx{pool};
    EXPECT_EQ(make_backend(source, ctx)->load_attention({})->type(), kernels::dtype::bf16);
  }
}

TEST(open_model_on_a_gpu, what_it_cannot_compute_goes_to_the_cpu_unless_the_gpu_was_asked_for) {
  const test::random_model folder("qwen3");
  const std::string why = "a GPU computes in bfloat16, and this model is to be computed in float32; choose "
                          "--dtype bfloat16 or --device cpu";
  const auto source = open(folder, "auto", "float32");
  EXPECT_EQ(source.device, model::device{});
  EXPECT_EQ(source.gpu_refused, why);
  ASSERT_NE(source.cpu_weights, nullptr);
  EXPECT_TRUE(source.numerics_class.starts_with("cpu-")) << source.numerics_class;
  try {
    open(folder, "cuda:0", "float32");
    FAIL() << "accepted";
  } catch (const option_error& error) {
    EXPECT_EQ(std::string{error.what()}, "--device: 'cuda:0': " + why);
  }
}

TEST(open_model_on_a_gpu, the_cpu_is_taken_where_it_is_asked_for) {
  const test::random_model folder("qwen3");
  const auto source = open(folder, "cpu", "bfloat16");
  EXPECT_EQ(source.device, model::device{});
  EXPECT_EQ(source.gpu_refused, "");
}

TEST(open_model_on_a_gpu, a_device_that_is_not_there_is_an_error) {
  const test::random_model folder("qwen3");
  EXPECT_THROW(open(folder, "cuda:99", "bfloat16"), option_error);
}

} // namespace
} // namespace troupe
