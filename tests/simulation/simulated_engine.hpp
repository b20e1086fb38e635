// Engines that compute a hash_model in virtual time: a cost model gives the duration of each step, measured
// by the clock of the actor system. So a whole cluster runs under CAF's test coordinator without further
// threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include "actors/engine/engine.hpp"
#include "tests/simulation/hash_model.hpp"

namespace troupe {

/// Durations of operations. The defaults are those of a small model on two cores.
struct simulated_costs {
  std::chrono::nanoseconds attention_step{20'000}; ///< weights of the attention side between two MoE layers
  std::chrono::nanoseconds attention_row{2'000};   ///< arithmetic of one row
  std::chrono::nanoseconds expert_weights{50'000}; ///< streaming one active expert
  std::chrono::nanoseconds expert_row{3'000};      ///< arithmetic of one (row, expert)
  std::chrono::nanoseconds expert_load{5'000'000}; ///< reading one expert from disk
};

/// A compute device: runs one task after another, each for a given time. The engines of a process share one.
class simulated_device {
 public:
  explicit simulated_device(caf::actor_system& system);
  ~simulated_device();
  simulated_device(const simulated_device&) = delete;
  simulated_device& operator=(const simulated_device&) = delete;

  /// Calls `task` once everything before it is done and `duration` has passed.
  void run(std::chrono::nanoseconds duration, std::function<void()> task);

  /// The actor that runs the tasks. Ends with the device, or by an exit message.
  const caf::actor& executor() const { return executor_; }

  /// From now on every task takes `factor` times as long: a slow worker, not a dead one.
  void slow_down(double factor);

  /// From now on no submitted task finishes: a computing thread that blocks.
  void hang();

  /// Ends `hang`; tasks that fell due meanwhile finish at once.
  void resume();

 private:
  caf::actor_system& system_;
  std::shared_ptr<std::atomic<bool>> hangs_ = std::make_shared<std::atomic<bool>>(false);
  caf::actor executor_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point busy_until_{};
  double slowness_ = 1;
};

/// The attention side. Keys are kept in numbered blocks, so that a wrong block table gives wrong tokens.
class simulated_attention_engine : public attention_engine,
                                   public std::enable_shared_from_this<simulated_attention_engine> {
 public:
  struct config {
    hash_model model;
    simulated_costs costs;
    std::uint32_t block_tokens = 4;
    std::uint32_t num_blocks = 256;
  };

  simulated_attention_engine(std::shared_ptr<simulated_device> device, config settings);

  const model_shape& shape() const override { return config_.model.shape; }

  std::uint32_t block_tokens() const override { return config_.block_tokens; }

  std::uint32_t num_blocks() const override { return config_.num_blocks; }

  void begin(attention_step_ptr step, attention_done done) override;
  void resume(attention_step_ptr step, std::vector<expert_outputs> outputs, attention_done done) override;

  /// The next `steps` steps fail with this text.
  void fail(std::uint32_t steps, std::string text);

  /// From now on the logits of this sequence are not numbers.
  void break_logits(const sequence_id& id) { broken_.insert(id); }

  /// Steps begun so far.
  std::uint64_t steps() const { return steps_; }

 private:
  void run(attention_step_ptr step, std::vector<expert_outputs> outputs, bool first, attention_done done);
  attention_result compute(attention_step& step, const std::vector<expert_outputs>& outputs, bool first);
  void start(attention_step& step);
  std::string combine(attention_step& step, const std::vector<expert_outputs>& outputs);
  void attend(attention_step& step, std::uint32_t layer);
  attention_result dispatch(attention_step& step, std::uint32_t layer);
  attention_result finish(attention_step& step);

  std::shared_ptr<simulated_device> device_;
  config config_;
  std::vector<std::vector<std::uint64_t>> keys_; ///< [layer][block × block_tokens + offset]
  std::set<sequence_id> broken_;
  std::string failure_;
  std::uint32_t failing_steps_ = 0;
  std::uint64_t steps_ = 0;
};

/// The expert side.
class simulated_expert_engine : public expert_engine,
                                public std::enable_shared_from_this<simulated_expert_engine> {
 public:
  struct config {
    hash_model model;
    simulated_costs costs;
    std::uint64_t expert_bytes = 1 << 20;
    std::uint64_t image_bytes = 1000; ///< size of an expert that one worker sends to another
    bool has_files = true;            ///< false: experts that cannot be fetched cannot be loaded
  };

  /// @param loader  device that runs loads, so that they do not delay steps; may be the same as `device`
  simulated_expert_engine(std::shared_ptr<simulated_device> device, std::shared_ptr<simulated_device> loader,
                          config settings);

  const model_shape& shape() const override { return config_.model.shape; }

  std::uint64_t expert_bytes() const override { return config_.expert_bytes; }

  void host(std::vector<expert_id> experts, expert_fetch fetch, expert_load_done done) override;
  std::shared_ptr<const expert_image> image(expert_id expert) const override;
  void submit(expert_step step, expert_done done) override;

  /// The next `steps` steps fail with this text.
  void fail(std::uint32_t steps, std::string text);

  /// From now on loading fails with this text; empty: it works again.
  void fail_loads(std::string text) { load_failure_ = std::move(text); }

  /// The next `steps` steps give outputs one row short.
  void truncate(std::uint32_t steps) { truncated_steps_ = steps; }

  /// Number of experts that came from other workers so far.
  std::uint64_t fetched() const { return fetched_; }

 private:
  struct order {
    std::set<expert_id> experts;
    expert_fetch fetch;
    expert_load_done done;
    std::set<expert_id> missing{};     ///< not fetched and not read from files yet
    std::set<expert_id> not_fetched{}; ///< to be read from files
    std::string fetch_error{};
  };

  /// Drops, then fetches, then loads, as the real engine does.
  void carry_out_first();
  void fetch_next();
  void read_files();
  void finish_first(std::string error);
  expert_step_result compute(const expert_step& step);

  std::shared_ptr<simulated_device> device_;
  std::shared_ptr<simulated_device> loader_;
  config config_;
  std::set<expert_id> loaded_;
  std::deque<order> orders_; ///< the first one runs
  std::string failure_;
  std::string load_failure_;
  std::uint32_t failing_steps_ = 0;
  std::uint32_t truncated_steps_ = 0;
  std::uint64_t fetched_ = 0;
};

} // namespace troupe
