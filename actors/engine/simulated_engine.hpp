// Engines that compute a hash_model in simulated time: they take what a cost model says, by the clock of
// the actor system, so that a whole cluster runs under CAF's test coordinator without a thread of its own.
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
#include "actors/engine/hash_model.hpp"

namespace troupe {

/// How long things take. The defaults are a small model on two cores.
struct simulated_costs {
  std::chrono::nanoseconds attention_step{20'000}; ///< weights of the attention side between two MoE layers
  std::chrono::nanoseconds attention_row{2'000};   ///< arithmetic of one row
  std::chrono::nanoseconds expert_weights{50'000}; ///< streaming one active expert
  std::chrono::nanoseconds expert_row{3'000};      ///< arithmetic of one (row, expert)
  std::chrono::nanoseconds expert_load{5'000'000}; ///< reading one expert from disk
};

/// A compute device: runs one thing after another, each for a given time. Engines of one process share one.
class simulated_device {
 public:
  explicit simulated_device(caf::actor_system& system);
  ~simulated_device();
  simulated_device(const simulated_device&) = delete;
  simulated_device& operator=(const simulated_device&) = delete;

  /// Calls `task` once everything before it is done and `duration` has passed.
  void run(std::chrono::nanoseconds duration, std::function<void()> task);

  /// The actor that runs the tasks. Ends with the device, or when told to.
  const caf::actor& executor() const { return executor_; }

  /// Everything from now on takes `factor` times as long: a worker that is slow, not dead.
  void slow_down(double factor);

  /// From now on nothing that was submitted is given back, however long it takes: a computing thread that
  /// blocks.
  void hang();

  /// What fell due meanwhile is given back at once.
  void resume();

 private:
  caf::actor_system& system_;
  std::shared_ptr<std::atomic<bool>> hangs_ = std::make_shared<std::atomic<bool>>(false);
  caf::actor executor_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point busy_until_{};
  double slowness_ = 1;
};

/// The attention side. Keys live in numbered blocks, so that a wrong block table gives wrong tokens.
class simulated_attention_engine : public attention_engine,
                                   public std::enable_shared_from_this<simulated_attention_engine> {
 public:
  struct config {
    hash_model model;
    simulated_costs costs;
    uint32_t block_tokens = 4;
    uint32_t num_blocks = 256;
  };

  simulated_attention_engine(std::shared_ptr<simulated_device> device, config settings);

  const model_shape& shape() const override { return config_.model.shape; }

  uint32_t block_tokens() const override { return config_.block_tokens; }

  uint32_t num_blocks() const override { return config_.num_blocks; }

  void begin(micro_batch_ptr batch, attention_done done) override;
  void resume(micro_batch_ptr batch, std::vector<expert_outputs> outputs, attention_done done) override;

  /// The next `steps` steps fail with this text.
  void fail(uint32_t steps, std::string text);

  /// From now on the logits of this sequence are not numbers.
  void break_logits(const sequence_id& id) { broken_.insert(id); }

  /// Steps begun so far.
  uint64_t steps() const { return steps_; }

 private:
  void run(micro_batch_ptr batch, std::vector<expert_outputs> outputs, bool first, attention_done done);
  attention_result compute(micro_batch& batch, const std::vector<expert_outputs>& outputs, bool first);
  std::string combine(micro_batch& batch, const std::vector<expert_outputs>& outputs);
  void attend(micro_batch& batch, uint32_t layer);
  attention_result dispatch(micro_batch& batch, uint32_t layer);
  attention_result finish(micro_batch& batch);

  std::shared_ptr<simulated_device> device_;
  config config_;
  std::vector<std::vector<uint64_t>> keys_; ///< [layer][block × block_tokens + offset]
  std::set<sequence_id> broken_;
  std::string failure_;
  uint32_t failing_steps_ = 0;
  uint64_t steps_ = 0;
};

/// The expert side.
class simulated_expert_engine : public expert_engine,
                                public std::enable_shared_from_this<simulated_expert_engine> {
 public:
  struct config {
    hash_model model;
    simulated_costs costs;
    uint64_t expert_bytes = 1 << 20;
    uint64_t image_bytes = 1000; ///< that travel between workers, per expert
    bool has_files = true;       ///< false: what cannot be fetched cannot be loaded
  };

  /// @param loader  where loading runs, so that it does not hold up steps; the same as `device` or another
  simulated_expert_engine(std::shared_ptr<simulated_device> device, std::shared_ptr<simulated_device> loader,
                          config settings);

  const model_shape& shape() const override { return config_.model.shape; }

  uint64_t expert_bytes() const override { return config_.expert_bytes; }

  void host(std::vector<expert_id> experts, expert_fetch fetch, expert_load_done done) override;
  std::shared_ptr<const expert_image> image(expert_id expert) const override;
  void submit(expert_step step, expert_done done) override;

  /// The next `steps` steps fail with this text.
  void fail(uint32_t steps, std::string text);

  /// Loading fails with this text from now on; empty: works again.
  void fail_loads(std::string text) { load_failure_ = std::move(text); }

  /// The next `steps` steps give outputs one row short.
  void truncate(uint32_t steps) { truncated_steps_ = steps; }

  /// Experts that came from other workers so far.
  uint64_t fetched() const { return fetched_; }

 private:
  struct order {
    std::set<expert_id> experts;
    expert_fetch fetch;
    expert_load_done done;
    std::set<expert_id> missing{};     ///< neither fetched nor looked for in files yet
    std::set<expert_id> not_fetched{}; ///< for files
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
  std::deque<order> orders_; ///< the first is under way
  std::string failure_;
  std::string load_failure_;
  uint32_t failing_steps_ = 0;
  uint32_t truncated_steps_ = 0;
  uint64_t fetched_ = 0;
};

} // namespace troupe
