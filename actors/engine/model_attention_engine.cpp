#include "actors/engine/model_attention_engine.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/step_sampling.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

/// Data that a step needs between its passes.
struct working_set {
  std::unique_ptr<model::attention_pass> forward;
  std::vector<std::span<const std::uint32_t>> tables; // of all sequences the first one, then the second
  std::vector<const std::byte*> slot_rows;            // [rows · top-k]
};

/// Working sets of finished steps, to be used again: their buffers have grown already, and a device
/// may have to wait for all its work before it frees memory.
class working_set_pool {
 public:
  std::unique_ptr<working_set> take(model::attention_backend& backend) {
    std::lock_guard guard(mutex_);
    if (free_.empty()) {
      auto made = std::make_unique<working_set>();
      made->forward = backend.make_pass();
      free_.reserve(++num_made_);
      return made;
    }
    auto set = std::move(free_.back());
    free_.pop_back();
    return set;
  }

  void give(std::unique_ptr<working_set> set) noexcept {
    std::lock_guard guard(mutex_);
    free_.push_back(std::move(set)); // capacity was reserved for all that were made
  }

 private:
  std::mutex mutex_;
  std::size_t num_made_ = 0;
  std::vector<std::unique_ptr<working_set>> free_; // at most the largest number of steps in flight
};

/// State of a step: a working set that returns to the pool when the step ends, whether
/// finished, failed or dropped while it waits for experts.
class lent_working_set : public attention_step::engine_state {
 public:
  lent_working_set(std::shared_ptr<working_set_pool> from, std::unique_ptr<working_set> set)
      : from_(std::move(from)), set_(std::move(set)) {}

  ~lent_working_set() override { from_->give(std::move(set_)); }

  lent_working_set(const lent_working_set&) = delete;
  lent_working_set& operator=(const lent_working_set&) = delete;

  working_set& operator*() const { return *set_; }

 private:
  std::shared_ptr<working_set_pool> from_;
  std::unique_ptr<working_set> set_;
};

/// Data that passes on the compute thread use and keep alive. It does not own the queue: the last pass may be
/// the last owner, and a queue must not end on its own thread.
struct attention_core {
  model_shape shape;
  std::unique_ptr<model::attention_backend> backend; // in tasks of the queue only
  std::uint32_t block_tokens = 0;
  std::size_t num_tables = 0; ///< block tables of a sequence
  device_loss_report device_lost;
  /// Declared after the backend, which made them, to end before it; steps may outlive both.
  std::shared_ptr<working_set_pool> working_sets = std::make_shared<working_set_pool>();
};

/// Copies blocks, then runs the rows to the first pause.
model::pause begin_pass(const attention_step& step, attention_core& core, working_set& state) {
  if (!step.copies.empty())
    core.backend->copy_blocks(step.copies);
  state.tables.clear();
  for (std::size_t t = 0; t < core.num_tables; ++t)
    for (const auto& sequence : step.sequences)
      state.tables.emplace_back((*sequence.tables)[t]);
  const std::span<const std::span<const std::uint32_t>> tables{state.tables};
  const auto count = step.sequences.size();
  return core.backend->begin({step.rows, tables.first(count), tables.subspan(count)}, *state.forward);
}

moe_dispatch dispatch_of(const model::attention_pass& forward, std::size_t row_bytes) {
  const auto routed = forward.routed();
  moe_dispatch dispatch;
  dispatch.layer = static_cast<std::uint32_t>(routed.layer);
  dispatch.num_rows = static_cast<std::uint32_t>(routed.num_rows);
  dispatch.num_topk = static_cast<std::uint32_t>(routed.num_topk);
  dispatch.offsets.assign(routed.offsets.begin(), routed.offsets.end());
  dispatch.slots.assign(routed.entries.begin(), routed.entries.end());
  dispatch.activations = payload::allocate(routed.num_rows * row_bytes);
  forward.read_rows(dispatch.activations.mutable_data());
  return dispatch;
}

/// Fills `slot_rows`. @throws std::runtime_error if an answer is missing or of the wrong size
void place_outputs(const std::vector<expert_outputs>& outputs, std::size_t row_bytes, working_set& state) {
  state.slot_rows.assign(state.forward->routed().entries.size(), nullptr);
  for (const auto& answer : outputs) {
    if (answer.outputs.size() != answer.slots.size() * row_bytes)
      throw std::runtime_error("expert outputs of the wrong size");
    const std::byte* row = answer.outputs.data();
    for (std::uint32_t slot : answer.slots) {
      if (slot != expert_outputs::unused)
        state.slot_rows.at(slot) = row;
      row += row_bytes;
    }
  }
  if (std::find(state.slot_rows.begin(), state.slot_rows.end(), nullptr) != state.slot_rows.end())
    throw std::runtime_error("an expert output is missing");
}

std::vector<step_token> sample(attention_core& core, const attention_step& step, working_set& state) {
  const auto compute = [&core, &state](const model::token_requests& tokens) {
    core.backend->sample(*state.forward, tokens);
  };
  std::vector<step_token> tokens;
  for (std::size_t first = 0; first < step.wanted.size(); first += logits_chunk_rows) {
    const auto count = std::min(logits_chunk_rows, step.wanted.size() - first);
    answer_wanted(compute, step, std::span(step.wanted).subspan(first, count), tokens);
  }
  return tokens;
}

/// @param sampling_ns  time of sampling; 0: the pass stopped for experts
void trace_pass(const attention_step& step, const attention_result& result, const working_set& state,
                std::chrono::steady_clock::time_point start, std::uint64_t sampling_ns) {
  timeline::event pass{.kind = timeline::event_kind::attention_step, .begin_ns = timeline::ns_of(start)};
  pass.id = step.trace;
  pass.duration_ns = result.compute_ns;
  pass.args = {result.finished ? timeline::no_layer : result.dispatch.layer, step.rows.size(),
               result.finished ? 0 : state.forward->routed().router_ns, sampling_ns};
  timeline::record(pass);
}

/// Runs `pass` to its pause and reports; then computes what needs no expert while the step waits for
/// answers.
template <class Pass>
void run_pass(attention_core& core, const attention_step_ptr& step, const attention_done& done, Pass pass) {
  attention_result result;
  std::uint64_t sampling_ns = 0;
  auto start = std::chrono::steady_clock::now();
  auto* state = &**static_cast<lent_working_set*>(step->state.get());
  try {
    if (pass(*state) == model::pause::experts) {
      result.dispatch = dispatch_of(*state->forward, core.shape.row_bytes);
    } else {
      result.finished = true;
      const auto before = std::chrono::steady_clock::now();
      result.tokens = sample(core, *step, *state);
      sampling_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - before).count());
    }
  } catch (const std::exception& error) {
    result.error = error.what();
    report_device_loss(error, core.device_lost);
  }
  result.compute_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - start).count());
  if (step->trace != 0 && result.error.empty())
    trace_pass(*step, result, *state, start, sampling_ns);
  bool over = result.finished || !result.error.empty();
  if (over)
    step->state.reset(); // the next step may use it
  done(step, std::move(result));
  if (!over) {
    // `step` keeps the state alive, and a resume is queued after this task.
    try {
      core.backend->overlap(*state->forward);
    } catch (const std::exception& error) {
      // Only time is lost: resume computes what is missing, and reports what is wrong.
      report_device_loss(error, core.device_lost);
    }
  }
}

class model_attention_engine : public attention_engine {
 public:
  explicit model_attention_engine(model_attention_config config)
      : queue_(std::move(config.queue)), core_(std::make_shared<attention_core>()) {
    const std::uint64_t block_bytes = config.backend->kv_block_bytes(config.block_tokens);
    num_blocks_ = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(config.kv_cache_bytes / block_bytes, std::uint64_t{1} << 30));
    if (num_blocks_ == 0) {
      throw std::runtime_error("the KV cache budget of " + std::to_string(config.kv_cache_bytes)
                               + " bytes holds no block of " + std::to_string(block_bytes) + " bytes");
    }
    config.backend->reserve_kv(config.block_tokens, num_blocks_);
    core_->shape = std::move(config.shape);
    core_->num_tables = config.backend->kv_reaches().size();
    core_->backend = std::move(config.backend);
    core_->block_tokens = config.block_tokens;
    core_->device_lost = std::move(config.device_lost);
  }

  const model_shape& shape() const override { return core_->shape; }

  std::uint32_t block_tokens() const override { return core_->block_tokens; }

  std::uint32_t num_blocks() const override { return num_blocks_; }

  std::vector<kv_reach> kv_reaches() const override {
    std::vector<kv_reach> result;
    for (const auto& reach : core_->backend->kv_reaches())
      result.push_back({static_cast<std::uint32_t>(reach.window), static_cast<std::uint32_t>(reach.chunk)});
    return result;
  }

  void begin(attention_step_ptr step, attention_done done) override {
    queue_->submit([core = core_, step = std::move(step), done = std::move(done)] {
      try {
        step->state =
            std::make_unique<lent_working_set>(core->working_sets, core->working_sets->take(*core->backend));
      } catch (const std::exception& error) {
        attention_result failed;
        failed.error = error.what();
        report_device_loss(error, core->device_lost);
        done(step, std::move(failed));
        return;
      }
      run_pass(*core, step, done, [&](working_set& state) { return begin_pass(*step, *core, state); });
    });
  }

  void resume(attention_step_ptr step, std::vector<expert_outputs> outputs, attention_done done) override {
    queue_->submit(
        [core = core_, step = std::move(step), outputs = std::move(outputs), done = std::move(done)] {
          run_pass(*core, step, done, [&](working_set& state) {
            place_outputs(outputs, core->shape.row_bytes, state);
            return core->backend->resume(state.slot_rows, *state.forward);
          });
        });
  }

 private:
  std::shared_ptr<compute_queue> queue_;
  std::shared_ptr<attention_core> core_;
  std::uint32_t num_blocks_ = 0;
};

} // namespace

std::shared_ptr<attention_engine> make_model_attention_engine(model_attention_config config) {
  return std::make_shared<model_attention_engine>(std::move(config));
}

} // namespace troupe
