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

/// Data of a micro-batch that it needs between its steps.
struct working_set {
  std::unique_ptr<model::attention_pass> forward;
  std::vector<model::batch_row> rows;
  std::vector<std::span<const std::uint32_t>> tables; // of all sequences the first one, then the second
  std::vector<const std::byte*> slot_rows;            // [rows · top-k]
};

/// Working sets of finished micro-batches, to be used again: their buffers have grown already, and a device
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
  std::vector<std::unique_ptr<working_set>> free_; // at most the largest number of micro-batches in flight
};

/// State of a micro-batch: a working set that returns to the pool when the micro-batch ends, whether
/// finished, failed or dropped while it waits for experts.
class lent_working_set : public micro_batch::engine_state {
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

/// Data that steps on the compute thread use and keep alive. It does not own the queue: the last step may be
/// the last owner, and a queue must not end on its own thread.
struct attention_core {
  model_shape shape;
  std::unique_ptr<model::attention_backend> backend; // in steps of the queue only
  std::uint32_t block_tokens = 0;
  std::size_t num_tables = 0; ///< block tables of a sequence
  device_loss_report device_lost;
  /// Declared after the backend, which made them, to end before it; micro-batches may outlive both.
  std::shared_ptr<working_set_pool> working_sets = std::make_shared<working_set_pool>();
};

void add_rows(const std::vector<step_sequence>& sequences, const attention_core& core, working_set& state) {
  const auto block_tokens = core.block_tokens;
  state.rows.clear();
  state.tables.clear();
  for (std::size_t t = 0; t < core.num_tables; ++t)
    for (const auto& step : sequences)
      state.tables.emplace_back(step.block_tables[t]);
  for (std::uint32_t s = 0; s < sequences.size(); ++s) {
    const step_sequence& step = sequences[s];
    const auto& blocks = step.block_tables.front();
    for (std::uint32_t i = 0; i < step.num_rows; ++i) {
      std::uint32_t position = step.first_position + i;
      std::uint32_t slot = blocks[position / block_tokens] * block_tokens + position % block_tokens;
      state.rows.push_back({.token = static_cast<std::uint32_t>(step.sequence->tokens[position]),
                            .position = position,
                            .sequence = s,
                            .kv_slot = slot});
    }
  }
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

std::vector<sampled_sequence> sample(attention_core& core, const micro_batch& batch, working_set& state) {
  std::vector<sampled_sequence> samples(batch.sequences.size());
  for (std::uint32_t s = 0; s < samples.size(); ++s)
    samples[s].sequence = s;
  auto wanted = wanted_logits(batch.sequences);
  for (std::size_t first = 0; first < wanted.size(); first += logits_chunk_rows) {
    auto chunk = std::span(wanted).subspan(first, std::min(logits_chunk_rows, wanted.size() - first));
    answer_logits([&core, &state](
                      const model::token_requests& tokens) { core.backend->sample(*state.forward, tokens); },
                  chunk, batch.sequences, samples);
  }
  std::erase_if(samples, [](const sampled_sequence& s) { return !s.has_token && s.prompt_logprobs.empty(); });
  return samples;
}

/// @param sampling_ns  time of sampling; 0: the step stopped for experts
void trace_step(const micro_batch& batch, const attention_result& result, const working_set& state,
                std::chrono::steady_clock::time_point start, std::uint64_t sampling_ns) {
  timeline::event step{.kind = timeline::event_kind::attention_step, .begin_ns = timeline::ns_of(start)};
  step.id = batch.trace;
  step.duration_ns = result.compute_ns;
  step.args = {result.finished ? timeline::no_layer : result.dispatch.layer, state.rows.size(),
               result.finished ? 0 : state.forward->routed().router_ns, sampling_ns};
  timeline::record(step);
}

/// Runs `step` to its pause and reports; then computes what needs no expert while the batch waits for
/// answers.
template <class Step>
void run_step(attention_core& core, const micro_batch_ptr& batch, const attention_done& done, Step step) {
  attention_result result;
  std::uint64_t sampling_ns = 0;
  auto start = std::chrono::steady_clock::now();
  auto* state = &**static_cast<lent_working_set*>(batch->state.get());
  try {
    if (step(*state) == model::pause::experts) {
      result.dispatch = dispatch_of(*state->forward, core.shape.row_bytes);
    } else {
      result.finished = true;
      const auto before = std::chrono::steady_clock::now();
      result.samples = sample(core, *batch, *state);
      sampling_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - before).count());
    }
  } catch (const std::exception& error) {
    result.error = error.what();
    report_device_loss(error, core.device_lost);
  }
  result.compute_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - start).count());
  if (batch->trace != 0 && result.error.empty())
    trace_step(*batch, result, *state, start, sampling_ns);
  bool over = result.finished || !result.error.empty();
  if (over)
    batch->state.reset(); // the next micro-batch may use it
  done(batch, std::move(result));
  if (!over) {
    // `batch` keeps the state alive, and a resume is queued after this task.
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

  void begin(micro_batch_ptr batch, attention_done done) override {
    queue_->submit([core = core_, batch = std::move(batch), done = std::move(done)] {
      try {
        batch->state =
            std::make_unique<lent_working_set>(core->working_sets, core->working_sets->take(*core->backend));
      } catch (const std::exception& error) {
        attention_result failed;
        failed.error = error.what();
        report_device_loss(error, core->device_lost);
        done(batch, std::move(failed));
        return;
      }
      run_step(*core, batch, done, [&](working_set& state) {
        add_rows(batch->sequences, *core, state);
        const std::span<const std::span<const std::uint32_t>> tables{state.tables};
        const auto count = batch->sequences.size();
        return core->backend->begin({state.rows, tables.first(count), tables.subspan(count)}, *state.forward);
      });
    });
  }

  void resume(micro_batch_ptr batch, std::vector<expert_outputs> outputs, attention_done done) override {
    queue_->submit(
        [core = core_, batch = std::move(batch), outputs = std::move(outputs), done = std::move(done)] {
          run_step(*core, batch, done, [&](working_set& state) {
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
