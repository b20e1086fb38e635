// Engines report a device that has failed for good, and not errors of a single step; they do not continue
// without device memory.
#include "actors/engine/device_loss.hpp"

#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "actors/engine/model_attention_engine.hpp"
#include "actors/engine/model_expert_engine.hpp"
#include "kernels/isa.hpp"
#include "tests/unit/actors/told.hpp"

namespace troupe {
namespace {

class device_is_lost : public kernels::kernel_error {
 public:
  device_is_lost() : kernel_error("wait for a stream: an illegal memory access") {}

  bool is_device_lost() const noexcept override { return true; }
};

using fault = std::function<void()>;

const fault lost = [] { throw device_is_lost{}; };
const fault out_of_memory = [] { throw kernels::kernel_error("allocate 12 bytes: out of memory"); };
const fault no_error_of_kernels = [] { throw std::bad_alloc{}; };

/// Experts whose every use fails.
class failing_experts : public model::expert_backend {
 public:
  explicit failing_experts(fault failure) : failure_(std::move(failure)) {}

  const model::model_config& config() const override { return config_; }

  kernels::dtype type() const override { return kernels::dtype::bf16; }

  void load(std::size_t, std::size_t) override { failure_(); }

  bool unload(std::size_t, std::size_t) override { return false; }

  std::size_t num_bytes() const override { return 0; }

  std::size_t expert_bytes(std::size_t) const override { return 64; }

  std::optional<std::size_t> forward(std::size_t, std::span<const model::expert_rows>) override {
    failure_();
    return {};
  }

 private:
  model::model_config config_;
  fault failure_;
};

class no_pass : public model::attention_pass {
 public:
  model::routed_rows routed() const override { return {}; }

  void read_rows(std::byte*) const override {}
};

/// An attention side that fails when a pass is made, or at its begin.
class failing_attention : public model::attention_backend {
 public:
  failing_attention(fault of_pass, fault of_begin)
      : of_pass_(std::move(of_pass)), of_begin_(std::move(of_begin)) {}

  const model::model_config& config() const override { return config_; }

  kernels::dtype type() const override { return kernels::dtype::bf16; }

  std::size_t max_positions() const override { return 64; }

  std::size_t num_bytes() const override { return 0; }

  std::size_t kv_block_bytes(std::size_t) const override { return 64; }

  void reserve_kv(std::size_t, std::size_t) override {}

  std::unique_ptr<model::attention_pass> make_pass() override {
    if (of_pass_)
      of_pass_();
    return std::make_unique<no_pass>();
  }

  model::pause begin(const model::micro_batch&, model::attention_pass&) override {
    of_begin_();
    return model::pause::done;
  }

  void overlap(model::attention_pass&) override {}

  model::pause resume(std::span<const std::byte* const>, model::attention_pass&) override {
    return model::pause::done;
  }

  void logits(model::attention_pass&, std::span<const std::uint32_t>, kernels::tensor_view) override {}

  void sample(model::attention_pass&, const model::token_requests&) override {}

  void copy_blocks(std::span<const model::block_copy>) override {}

 private:
  model::model_config config_;
  fault of_pass_;
  fault of_begin_;
};

class device_loss_test : public ::testing::Test {
 protected:
  /// Records reports, which precede the return of the failed step.
  device_loss_report report() {
    return [this](const std::exception& error) { reported_ += std::string{error.what()} + "\n"; };
  }

  std::string after_a_step_of_experts(const fault& failure) {
    const auto engine = experts(failure);
    told<std::string> error;
    engine->submit({}, [error](expert_step_result result) { error.set(result.error); });
    EXPECT_NE(error.get(), "");
    return reported_;
  }

  std::string after_a_load(const fault& failure) {
    const auto engine = experts(failure);
    told<std::string> error;
    engine->host({{0, 1}}, {}, [error](expert_load_result result) { error.set(result.error); });
    EXPECT_NE(error.get(), "");
    return reported_;
  }

  std::string after_a_step_of_attention(const fault& of_pass, const fault& of_begin) {
    model_attention_config config;
    config.backend = std::make_unique<failing_attention>(of_pass, of_begin);
    config.queue = queue_;
    config.kv_cache_bytes = 64;
    config.device_lost = report();
    const auto engine = make_model_attention_engine(std::move(config));
    told<std::string> error;
    engine->begin(
        std::make_shared<attention_step>(),
        [error](const attention_step_ptr&, const attention_result& result) { error.set(result.error); });
    EXPECT_NE(error.get(), "");
    return reported_;
  }

  std::shared_ptr<expert_engine> experts(const fault& failure) {
    return experts(std::make_shared<failing_experts>(failure), 2);
  }

  std::shared_ptr<expert_engine> experts(std::shared_ptr<model::expert_backend> backend,
                                         std::uint32_t count) {
    model_expert_config config;
    config.shape.layer_experts = {count};
    config.shape.row_bytes = 16;
    config.backend = std::move(backend);
    config.queue = queue_;
    config.device_lost = report();
    return make_model_expert_engine(std::move(config));
  }

  std::string reported_;
  std::shared_ptr<compute_queue> queue_ = std::make_shared<compute_queue>(1, kernels::isa::portable);
};

const std::string told_once = std::string{device_is_lost{}.what()} + "\n";

TEST_F(device_loss_test, of_a_step_of_experts) {
  EXPECT_EQ(after_a_step_of_experts(out_of_memory), "");
  EXPECT_EQ(after_a_step_of_experts(no_error_of_kernels), "");
  EXPECT_EQ(after_a_step_of_experts(lost), told_once);
}

TEST_F(device_loss_test, of_a_load) {
  EXPECT_EQ(after_a_load(out_of_memory), "");
  EXPECT_EQ(after_a_load(lost), told_once);
}

TEST_F(device_loss_test, memory_that_has_run_out_ends_an_order_and_leaves_what_was_there) {
  struct device_is_full : kernels::kernel_error {
    device_is_full() : kernel_error("allocate 12 bytes: out of memory") {}

    bool is_out_of_memory() const noexcept override { return true; }
  };

  /// Has room for N experts, and counts the requests.
  struct small_device : failing_experts {
    small_device() : failing_experts(nullptr) {}

    void load(std::size_t, std::size_t expert) override {
      tried += std::to_string(expert) + " ";
      if (here.contains(expert))
        return;
      if (here.size() == 3)
        throw device_is_full{};
      here.insert(expert);
    }

    bool unload(std::size_t, std::size_t expert) override { return here.erase(expert) == 1; }

    std::set<std::size_t> here;
    std::string tried;
  };

  const auto device = std::make_shared<small_device>();
  const auto engine = experts(device, 8);
  const auto host = [&](const std::vector<expert_id>& wanted) {
    told<expert_load_result> result;
    engine->host(wanted, {}, [result](expert_load_result of_order) { result.set(std::move(of_order)); });
    return result.get();
  };
  EXPECT_EQ(host({{0, 0}, {0, 7}}).hosted, (std::vector<expert_id>{{0, 0}, {0, 7}}));
  device->tried.clear();
  const auto second = host({{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 7}});
  EXPECT_EQ(second.hosted, (std::vector<expert_id>{{0, 0}, {0, 1}, {0, 7}}));
  EXPECT_EQ(second.error, "layer 0, expert 2: allocate 12 bytes: out of memory");
  EXPECT_EQ(device->tried, "0 1 2 7 ") << "3 and 4 are not read in vain";
  EXPECT_EQ(device->here, (std::set<std::size_t>{0, 1, 7}));
  EXPECT_EQ(host({{0, 4}}).error, "") << "there is memory again";
  EXPECT_EQ(reported_, "") << "the device is not lost";
}

TEST_F(device_loss_test, of_a_step_of_attention) {
  EXPECT_EQ(after_a_step_of_attention(nullptr, out_of_memory), "");
  EXPECT_EQ(after_a_step_of_attention(nullptr, lost), told_once);
}

TEST_F(device_loss_test, of_a_pass_that_is_made) {
  EXPECT_EQ(after_a_step_of_attention(out_of_memory, nullptr), "");
  EXPECT_EQ(after_a_step_of_attention(lost, nullptr), told_once);
}

} // namespace
} // namespace troupe
