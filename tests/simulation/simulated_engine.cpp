#include "tests/simulation/simulated_engine.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <caf/actor_clock.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include "tests/simulation/simulated_image.hpp"

namespace troupe {

using simulated_task_ptr = std::shared_ptr<std::function<void()>>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::simulated_task_ptr)

namespace troupe {

namespace {

struct simulated_executor_state {
  static inline const char* name = "simulated_executor";
  std::vector<simulated_task_ptr> due; ///< not run while the device hangs
};

/// Takes the place of a device's thread: runs each task when its message falls due. A message without a task
/// makes it check whether the device still hangs.
caf::behavior simulated_executor(caf::stateful_actor<simulated_executor_state>* self,
                                 const std::shared_ptr<const std::atomic<bool>>& hangs) {
  return {[self, hangs](const simulated_task_ptr& added) {
    auto& due = self->state.due;
    if (added)
      due.push_back(added);
    if (*hangs)
      return;
    for (const auto& task : std::exchange(due, {}))
      (*task)();
  }};
}

/// Rows of a step on their way.
struct simulated_state : attention_step::engine_state {
  std::vector<std::uint64_t> rows;
  std::uint32_t layer = 0; ///< that waits for its experts
};

simulated_state& state_of(attention_step& step) {
  return static_cast<simulated_state&>(*step.state);
}

} // namespace

simulated_device::simulated_device(caf::actor_system& system)
    : system_(system),
      executor_(system.spawn(simulated_executor, std::shared_ptr<const std::atomic<bool>>{hangs_})) {}

simulated_device::~simulated_device() {
  caf::anon_send_exit(executor_, caf::exit_reason::user_shutdown);
}

void simulated_device::run(std::chrono::nanoseconds duration, std::function<void()> task) {
  auto& clock = system_.clock();
  const std::lock_guard lock{mutex_};
  const auto slowed =
      std::chrono::nanoseconds{static_cast<std::int64_t>(static_cast<double>(duration.count()) * slowness_)};
  busy_until_ = std::max(busy_until_, clock.now()) + slowed;
  caf::delayed_anon_send(executor_, busy_until_ - clock.now(),
                         std::make_shared<std::function<void()>>(std::move(task)));
}

void simulated_device::slow_down(double factor) {
  const std::lock_guard lock{mutex_};
  slowness_ = factor;
}

void simulated_device::hang() {
  *hangs_ = true;
}

void simulated_device::resume() {
  *hangs_ = false;
  caf::anon_send(executor_, simulated_task_ptr{});
}

// ---------------------------------------------------------------------------------------------------------------

simulated_attention_engine::simulated_attention_engine(std::shared_ptr<simulated_device> device,
                                                       config settings)
    : device_(std::move(device)),
      config_(std::move(settings)),
      keys_(config_.model.shape.layer_experts.size(),
            std::vector<std::uint64_t>(std::size_t{config_.num_blocks} * config_.block_tokens)) {}

void simulated_attention_engine::begin(attention_step_ptr step, attention_done done) {
  run(std::move(step), {}, true, std::move(done));
}

void simulated_attention_engine::resume(attention_step_ptr step, std::vector<expert_outputs> outputs,
                                        attention_done done) {
  run(std::move(step), std::move(outputs), false, std::move(done));
}

void simulated_attention_engine::fail(std::uint32_t steps, std::string text) {
  failing_steps_ = steps;
  failure_ = std::move(text);
}

void simulated_attention_engine::run(attention_step_ptr step, std::vector<expert_outputs> outputs, bool first,
                                     attention_done done) {
  ++steps_;
  const auto duration = config_.costs.attention_step + step->rows.size() * config_.costs.attention_row;
  device_->run(duration, [this, keep = shared_from_this(), step = std::move(step),
                          outputs = std::move(outputs), first, duration, done = std::move(done)] {
    auto result = compute(*step, outputs, first);
    result.compute_ns = static_cast<std::uint64_t>(duration.count());
    done(step, std::move(result));
  });
}

attention_result simulated_attention_engine::compute(attention_step& step,
                                                     const std::vector<expert_outputs>& outputs, bool first) {
  attention_result result;
  if (failing_steps_ > 0) {
    --failing_steps_;
    result.error = failure_;
    return result;
  }
  std::uint32_t layer = 0;
  if (first) {
    start(step);
  } else {
    result.error = combine(step, outputs);
    if (!result.error.empty())
      return result;
    layer = state_of(step).layer + 1;
  }
  const auto& layers = config_.model.shape.layer_experts;
  for (; layer < layers.size(); ++layer) {
    attend(step, layer);
    if (layers[layer] > 0)
      return dispatch(step, layer);
    for (auto& row : state_of(step).rows)
      row = hash_model::dense(layer, row);
  }
  return finish(step);
}

void simulated_attention_engine::start(attention_step& step) {
  for (const auto [from, to] : step.copies)
    for (auto& keys : keys_)
      std::copy_n(keys.begin() + std::ptrdiff_t{from} * config_.block_tokens, config_.block_tokens,
                  keys.begin() + std::ptrdiff_t{to} * config_.block_tokens);
  auto state = std::make_unique<simulated_state>();
  for (const auto& row : step.rows)
    state->rows.push_back(hash_model::embed(static_cast<std::int32_t>(row.token), row.position));
  step.state = std::move(state);
}

std::string simulated_attention_engine::combine(attention_step& step,
                                                const std::vector<expert_outputs>& outputs) {
  auto& state = state_of(step);
  const auto& shape = config_.model.shape;
  std::vector<const std::byte*> slots(state.rows.size() * shape.num_topk);
  for (const auto& part : outputs) {
    if (part.outputs.size() != part.slots.size() * shape.row_bytes)
      return "expert outputs of a wrong size";
    for (std::size_t i = 0; i < part.slots.size(); ++i) {
      if (part.slots[i] == expert_outputs::unused)
        continue;
      if (part.slots[i] >= slots.size() || slots[part.slots[i]] != nullptr)
        return "slot " + std::to_string(part.slots[i]) + " is unknown or answered twice";
      slots[part.slots[i]] = part.outputs.data() + i * shape.row_bytes;
    }
  }
  if (std::find(slots.begin(), slots.end(), nullptr) != slots.end())
    return "a slot is not answered";
  for (std::size_t row = 0; row < state.rows.size(); ++row)
    state.rows[row] = config_.model.combine(state.layer, state.rows[row],
                                            std::span{slots}.subspan(row * shape.num_topk, shape.num_topk));
  return {};
}

void simulated_attention_engine::attend(attention_step& step, std::uint32_t layer) {
  auto& keys = keys_[layer];
  auto& states = state_of(step).rows;
  // Digest of the keys so far of each sequence, and how many they are.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> digests(step.sequences.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto& row = step.rows[i];
    const auto& blocks = step.sequences[row.sequence].tables->front();
    keys.at(row.kv_slot) = states[i];
    auto& [digest, position] = digests[row.sequence];
    for (; position <= row.position; ++position)
      digest = hash_model::attend(
          digest, keys.at(std::size_t{blocks.at(position / config_.block_tokens)} * config_.block_tokens
                          + position % config_.block_tokens));
    states[i] = hash_model::attended(layer, states[i], digest);
  }
}

attention_result simulated_attention_engine::dispatch(attention_step& step, std::uint32_t layer) {
  auto& state = state_of(step);
  const auto& shape = config_.model.shape;
  const auto num_topk = shape.num_topk;
  attention_result result;
  auto& wanted = result.dispatch;
  state.layer = layer;
  wanted.layer = layer;
  wanted.num_rows = static_cast<std::uint32_t>(state.rows.size());
  wanted.num_topk = num_topk;
  wanted.activations = payload::allocate(state.rows.size() * shape.row_bytes);
  auto* bytes = wanted.activations.mutable_data();
  std::vector<std::vector<std::uint32_t>> table(shape.layer_experts[layer]);
  for (std::size_t row = 0; row < state.rows.size(); ++row) {
    config_.model.activations(state.rows[row], bytes + row * shape.row_bytes);
    const auto experts = config_.model.route(layer, state.rows[row]);
    for (std::size_t place = 0; place < experts.size(); ++place)
      table[experts[place]].push_back(static_cast<std::uint32_t>(row * num_topk + place));
  }
  wanted.offsets.push_back(0);
  for (const auto& slots : table) {
    wanted.slots.insert(wanted.slots.end(), slots.begin(), slots.end());
    wanted.offsets.push_back(static_cast<std::uint32_t>(wanted.slots.size()));
  }
  return result;
}

attention_result simulated_attention_engine::finish(attention_step& step) {
  attention_result result;
  result.finished = true;
  for (const auto& wanted : step.wanted) {
    const auto state = state_of(step).rows.at(wanted.row);
    const auto number = step.rows[wanted.row].sequence;
    const auto& sequence = *step.sequences[number].tokens;
    step_token token{.sequence = number, .position = wanted.position, .purpose = wanted.purpose};
    if (wanted.purpose == token_purpose::sample) {
      token.is_broken = broken_.contains(sequence.id);
      token.token = config_.model.sample(state, sequence, wanted.position);
    } else {
      token.token =
          config_.model.score(state, sequence.tokens.at(wanted.position), sequence.sampling.prompt_logprobs);
    }
    result.tokens.push_back(std::move(token));
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------------------

simulated_expert_engine::simulated_expert_engine(std::shared_ptr<simulated_device> device,
                                                 std::shared_ptr<simulated_device> loader, config settings)
    : device_(std::move(device)), loader_(std::move(loader)), config_(std::move(settings)) {}

void simulated_expert_engine::host(std::vector<expert_id> experts, expert_fetch fetch,
                                   expert_load_done done) {
  orders_.push_back({{experts.begin(), experts.end()}, std::move(fetch), std::move(done)});
  if (orders_.size() == 1)
    carry_out_first();
}

std::shared_ptr<const expert_image> simulated_expert_engine::image(expert_id expert) const {
  if (loaded_.count(expert) == 0)
    return nullptr;
  return std::make_shared<const simulated_image>(expert, config_.image_bytes);
}

void simulated_expert_engine::carry_out_first() {
  auto& first = orders_.front();
  std::erase_if(loaded_, [&](expert_id id) { return first.experts.count(id) == 0; });
  std::set_difference(first.experts.begin(), first.experts.end(), loaded_.begin(), loaded_.end(),
                      std::inserter(first.missing, first.missing.end()));
  if (!first.fetch)
    first.not_fetched.swap(first.missing);
  fetch_next();
}

void simulated_expert_engine::fetch_next() {
  auto& first = orders_.front();
  if (first.missing.empty()) {
    read_files();
    return;
  }
  const auto id = first.missing.extract(first.missing.begin()).value();
  const auto sink = std::make_shared<simulated_sink>(simulated_image{id, config_.image_bytes});
  first.fetch(id, sink, [this, keep = shared_from_this(), id, sink](std::string error) {
    if (error.empty() && !sink->is_whole())
      error = "other bytes than were sent";
    if (error.empty()) {
      loaded_.insert(id);
      ++fetched_;
    } else {
      orders_.front().not_fetched.insert(id);
      orders_.front().fetch_error = std::move(error);
    }
    fetch_next();
  });
}

void simulated_expert_engine::read_files() {
  const auto& first = orders_.front();
  if (!config_.has_files && !first.not_fetched.empty()) {
    finish_first("it cannot be fetched, and there are no files: " + first.fetch_error);
    return;
  }
  const auto missing = static_cast<std::int64_t>(first.not_fetched.size());
  loader_->run(missing * config_.costs.expert_load, [this, keep = shared_from_this()] {
    if (load_failure_.empty())
      loaded_.merge(orders_.front().not_fetched);
    finish_first(load_failure_);
  });
}

void simulated_expert_engine::finish_first(std::string error) {
  auto finished = std::move(orders_.front());
  orders_.pop_front();
  expert_load_result result{{loaded_.begin(), loaded_.end()}, std::move(error)};
  if (!orders_.empty())
    carry_out_first();
  finished.done(std::move(result));
}

void simulated_expert_engine::submit(expert_step step, expert_done done) {
  auto duration = std::chrono::nanoseconds{0};
  const auto* last = static_cast<const expert_rows*>(nullptr);
  for (const auto& work : step.work) {
    if (last == nullptr || last->expert != work.expert)
      duration += config_.costs.expert_weights;
    duration += work.rows.size() * config_.costs.expert_row;
    last = &work;
  }
  device_->run(duration,
               [this, keep = shared_from_this(), step = std::move(step), duration, done = std::move(done)] {
                 auto result = compute(step);
                 result.compute_ns = static_cast<std::uint64_t>(duration.count());
                 done(std::move(result));
               });
}

void simulated_expert_engine::fail(std::uint32_t steps, std::string text) {
  failing_steps_ = steps;
  failure_ = std::move(text);
}

expert_step_result simulated_expert_engine::compute(const expert_step& step) {
  expert_step_result result;
  if (failing_steps_ > 0) {
    --failing_steps_;
    result.error = failure_;
    return result;
  }
  for (const auto& work : step.work)
    if (loaded_.count({step.layer, work.expert}) == 0) {
      result.error = "layer " + std::to_string(step.layer) + ", expert " + std::to_string(work.expert)
                     + " is not loaded";
      return result;
    }
  const auto row_bytes = config_.model.shape.row_bytes;
  for (const auto& batch : step.batches)
    result.outputs.push_back(payload::allocate(std::size_t{batch.num_outputs} * row_bytes));
  for (const auto& work : step.work) {
    const auto* rows = step.batches.at(work.batch).activations.data();
    auto* outputs = result.outputs[work.batch].mutable_data() + std::size_t{work.first_output} * row_bytes;
    for (std::size_t i = 0; i < work.rows.size(); ++i)
      config_.model.expert(step.layer, work.expert, rows + std::size_t{work.rows[i]} * row_bytes,
                           outputs + i * row_bytes);
  }
  if (truncated_steps_ > 0) {
    --truncated_steps_;
    for (auto& output : result.outputs)
      output = output.slice(0, output.size() - row_bytes);
  }
  return result;
}

} // namespace troupe
