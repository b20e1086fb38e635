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

/// What a micro-batch needs between its steps.
struct working_set {
  std::unique_ptr<model::attention_pass> forward;
  std::vector<model::batch_row> rows;
  std::vector<std::span<const uint32_t>> tables;
  std::vector<const std::byte*> slot_rows; // [rows · top-k]
};

/// Working sets of micro-batches that are done, for the next ones: their buffers have grown, and a device may
/// have to wait for all its work to give memory back.
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
    free_.push_back(std::move(set)); // has room for all that were made
  }

 private:
  std::mutex mutex_;
  size_t num_made_ = 0;
  std::vector<std::unique_ptr<working_set>> free_; // as many as micro-batches were ever in flight
};

/// What a micro-batch carries: a working set that goes back where the micro-batch ends, be it done, failed or
/// dropped while it waits for experts.
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

/// Everything that steps on the compute thread use; they keep it alive. The queue is not among it: the last
/// step may be the last to let go, and a queue cannot end on its own thread.
struct attention_core {
  model_shape shape;
  std::unique_ptr<model::attention_backend> backend; // in steps of the queue only
  uint32_t block_tokens = 0;
  device_loss_report device_lost;
  /// After the backend, which has made them; micro-batches may outlive both.
  std::shared_ptr<working_set_pool> working_sets = std::make_shared<working_set_pool>();
};

void add_rows(const std::vector<step_sequence>& sequences, uint32_t block_tokens, working_set& state) {
  state.rows.clear();
  state.tables.clear();
  for (uint32_t s = 0; s < sequences.size(); ++s) {
    const step_sequence& step = sequences[s];
    state.tables.emplace_back(step.block_table);
    for (uint32_t i = 0; i < step.num_rows; ++i) {
      uint32_t position = step.first_position + i;
      uint32_t slot = step.block_table[position / block_tokens] * block_tokens + position % block_tokens;
      state.rows.push_back({.token = static_cast<uint32_t>(step.sequence->tokens[position]),
                            .position = position,
                            .sequence = s,
                            .kv_slot = slot,
                            .mask_parent = model::batch_row::causal});
    }
  }
}

moe_dispatch dispatch_of(const model::attention_pass& forward, size_t row_bytes) {
  const auto routed = forward.routed();
  moe_dispatch dispatch;
  dispatch.layer = static_cast<uint32_t>(routed.layer);
  dispatch.num_rows = static_cast<uint32_t>(routed.num_rows);
  dispatch.num_topk = static_cast<uint32_t>(routed.num_topk);
  dispatch.offsets.assign(routed.offsets.begin(), routed.offsets.end());
  dispatch.slots.assign(routed.entries.begin(), routed.entries.end());
  dispatch.activations = payload::allocate(routed.num_rows * row_bytes);
  forward.read_rows(dispatch.activations.mutable_data());
  return dispatch;
}

/// Fills `slot_rows`; @throws std::runtime_error when an answer is missing or of the wrong size
void place_outputs(const std::vector<expert_outputs>& outputs, size_t row_bytes, working_set& state) {
  state.slot_rows.assign(state.forward->routed().entries.size(), nullptr);
  for (const auto& answer : outputs) {
    if (answer.outputs.size() != answer.slots.size() * row_bytes) {
      throw std::runtime_error("expert outputs of the wrong size");
    }
    const std::byte* row = answer.outputs.data();
    for (uint32_t slot : answer.slots) {
      if (slot != expert_outputs::unused) {
        state.slot_rows.at(slot) = row;
      }
      row += row_bytes;
    }
  }
  if (std::find(state.slot_rows.begin(), state.slot_rows.end(), nullptr) != state.slot_rows.end()) {
    throw std::runtime_error("an expert output is missing");
  }
}

std::vector<sampled_sequence> sample(attention_core& core, const micro_batch& batch, working_set& state) {
  std::vector<sampled_sequence> samples(batch.sequences.size());
  for (uint32_t s = 0; s < samples.size(); ++s) {
    samples[s].sequence = s;
  }
  auto wanted = wanted_logits(batch.sequences);
  for (size_t first = 0; first < wanted.size(); first += logits_chunk_rows) {
    auto chunk = std::span(wanted).subspan(first, std::min(logits_chunk_rows, wanted.size() - first));
    answer_logits([&core, &state](
                      const model::token_requests& tokens) { core.backend->sample(*state.forward, tokens); },
                  chunk, batch.sequences, samples);
  }
  std::erase_if(samples, [](const sampled_sequence& s) { return !s.has_token && s.prompt_logprobs.empty(); });
  return samples;
}

/// @param sampling_ns  of the step; 0: it stopped for experts
void trace_step(const micro_batch& batch, const attention_result& result, const working_set& state,
                std::chrono::steady_clock::time_point start, uint64_t sampling_ns) {
  timeline::event step{.kind = timeline::event_kind::attention_step, .begin_ns = timeline::ns_of(start)};
  step.id = batch.trace;
  step.duration_ns = result.compute_ns;
  step.args = {result.finished ? timeline::no_layer : result.dispatch.layer, state.rows.size(),
               result.finished ? 0 : state.forward->routed().router_ns, sampling_ns};
  timeline::record(step);
}

/// Runs `step` to its pause, reports, and then computes what needs no expert while the answers are under way.
template <class Step>
void run_step(attention_core& core, const micro_batch_ptr& batch, const attention_done& done, Step step) {
  attention_result result;
  uint64_t sampling_ns = 0;
  auto start = std::chrono::steady_clock::now();
  auto* state = &**static_cast<lent_working_set*>(batch->state.get());
  try {
    if (step(*state) == model::pause::experts) {
      result.dispatch = dispatch_of(*state->forward, core.shape.row_bytes);
    } else {
      result.finished = true;
      const auto before = std::chrono::steady_clock::now();
      result.samples = sample(core, *batch, *state);
      sampling_ns = static_cast<uint64_t>((std::chrono::steady_clock::now() - before).count());
    }
  } catch (const std::exception& error) {
    result.error = error.what();
    report_device_loss(error, core.device_lost);
  }
  result.compute_ns = static_cast<uint64_t>((std::chrono::steady_clock::now() - start).count());
  if (batch->trace != 0 && result.error.empty()) {
    trace_step(*batch, result, *state, start, sampling_ns);
  }
  bool over = result.finished || !result.error.empty();
  if (over) {
    batch->state.reset(); // the next micro-batch may have it
  }
  done(batch, std::move(result));
  if (!over) {
    // `batch` keeps the state alive, and a resume waits behind this task.
    try {
      core.backend->overlap(*state->forward);
    } catch (const std::exception& error) {
      // Only time is lost: resume computes what is missing, and says what is wrong.
      report_device_loss(error, core.device_lost);
    }
  }
}

class model_attention_engine : public attention_engine {
 public:
  explicit model_attention_engine(model_attention_config config)
      : queue_(std::move(config.queue)), core_(std::make_shared<attention_core>()) {
    const uint64_t block_bytes = config.backend->kv_block_bytes(config.block_tokens);
    num_blocks_ =
        static_cast<uint32_t>(std::min<uint64_t>(config.kv_cache_bytes / block_bytes, uint64_t{1} << 30));
    if (num_blocks_ == 0) {
      throw std::runtime_error("the KV cache budget of " + std::to_string(config.kv_cache_bytes)
                               + " bytes holds no block of " + std::to_string(block_bytes) + " bytes");
    }
    config.backend->reserve_kv(config.block_tokens, num_blocks_);
    core_->shape = std::move(config.shape);
    core_->backend = std::move(config.backend);
    core_->block_tokens = config.block_tokens;
    core_->device_lost = std::move(config.device_lost);
  }

  const model_shape& shape() const override { return core_->shape; }

  uint32_t block_tokens() const override { return core_->block_tokens; }

  uint32_t num_blocks() const override { return num_blocks_; }

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
        add_rows(batch->sequences, core->block_tokens, state);
        return core->backend->begin({state.rows, state.tables}, *state.forward);
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
  uint32_t num_blocks_ = 0;
};

} // namespace

std::shared_ptr<attention_engine> make_model_attention_engine(model_attention_config config) {
  return std::make_shared<model_attention_engine>(std::move(config));
}

} // namespace troupe
