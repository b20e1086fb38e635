// A micro-batch that ends while it waits for experts, on an actor's thread: its device memory stays for the
// next one.
#include <memory>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "actors/engine/compute_queue.hpp"
#include "actors/engine/model_attention_engine.hpp"
#include "kernels/cuda/emulated_faults.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/reference/tested_backends.hpp"
#include "tests/unit/actors/told.hpp"

namespace troupe {
namespace {

class dropped_batch_test : public ::testing::Test {
 protected:
  dropped_batch_test() {
    model_attention_config config;
    config.backend =
        test::open_backend("cuda", queue_->context(), folder_.folder(), model::dtype_choice::bfloat16)
            ->load_attention({});
    config.shape.row_bytes =
        static_cast<std::uint32_t>(kernels::bytes_of(kernels::dtype::bf16, config.backend->config().hidden));
    config.queue = queue_;
    config.kv_cache_bytes = 4 * config.backend->kv_block_bytes(16);
    engine_ = make_model_attention_engine(std::move(config));
  }

  /// A micro-batch of two tokens that waits for experts, with no other reference to it.
  attention_step_ptr begin() {
    auto tokens = std::make_shared<sequence_tokens>();
    tokens->tokens = {1, 2};
    tokens->num_prompt = 2;
    auto step = std::make_shared<attention_step>();
    step->sequences.push_back({tokens, std::make_shared<std::vector<block_table>>(1, block_table{0})});
    step->rows = {{1, 0, 0, 0}, {2, 1, 0, 1}};
    told<bool> waits;
    engine_->begin(step, [waits](const attention_step_ptr&, const attention_result& result) {
      EXPECT_EQ(result.error, "");
      waits.set(!result.finished);
    });
    EXPECT_TRUE(waits.get());
    // The pass's own reference ends with the pass: tasks follow one another.
    told<bool> next;
    queue_->submit([next] { next.set(true); });
    next.get();
    return step;
  }

  test::random_model folder_{"qwen2"};
  std::shared_ptr<compute_queue> queue_ = std::make_shared<compute_queue>(1, kernels::isa::portable);
  std::shared_ptr<attention_engine> engine_;
};

TEST_F(dropped_batch_test, gives_nothing_back_to_the_device_and_its_memory_to_the_next_batch) {
  auto dropped = begin();
  const auto taken = kernels::cuda::emulated_memory_taken();
  const auto releases = kernels::cuda::emulated_releases_without_device();
  ASSERT_EQ(dropped.use_count(), 1);
  std::thread([last = std::move(dropped)]() mutable { last.reset(); }).join(); // has selected no device
  EXPECT_EQ(kernels::cuda::emulated_releases_without_device(), releases);
  EXPECT_EQ(kernels::cuda::emulated_memory_taken(), taken);
  const auto next = begin();
  EXPECT_EQ(kernels::cuda::emulated_memory_taken(), taken) << "the same working set";
  const auto other = begin();
  EXPECT_GT(kernels::cuda::emulated_memory_taken(), taken) << "while that one is in use";
}

TEST_F(dropped_batch_test, may_outlive_the_engine) {
  const auto batch = begin();
  engine_.reset();
}

} // namespace
} // namespace troupe
