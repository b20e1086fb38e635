#include "actors/serving_loop.hpp"

#include <algorithm>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/generation_check.hpp"

namespace troupe {

namespace {

batch_policy::limits limits_of(const attention_worker_config& config) {
  const auto& engine = *config.engine;
  batch_policy::limits result;
  result.max_num_seqs = config.max_num_seqs;
  result.max_num_batched_tokens = config.max_num_batched_tokens;
  result.max_waiting = config.max_waiting;
  result.max_model_len = engine.shape().max_model_len;
  if (config.max_model_len > 0)
    result.max_model_len = std::min(result.max_model_len, config.max_model_len);
  result.block_tokens = engine.block_tokens();
  result.num_blocks = engine.num_blocks();
  return result;
}

micro_batch_policy::config policy_of(const attention_worker_config& config) {
  micro_batch_policy::config result;
  result.max_micro_batches = config.max_micro_batches;
  result.min_micro_batches = config.min_micro_batches;
  return result;
}

uint64_t nanoseconds(std::chrono::steady_clock::duration elapsed) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
}

int32_t num_new(const sequence_tokens& tokens) {
  return static_cast<int32_t>(tokens.tokens.size()) - static_cast<int32_t>(tokens.num_prompt);
}

} // namespace

serving_loop::serving_loop(attention_worker_actor::pointer self, attention_worker_config config)
    : self_(self),
      config_(std::move(config)),
      batches_(limits_of(config_)),
      micro_batches_(policy_of(config_)),
      experts_(self, config_,
               {[this](uint32_t number, std::vector<expert_outputs> outputs, uint64_t expert_ns) {
                  from_experts(number, std::move(outputs), expert_ns);
                },
                [this](uint32_t number, ec code, std::string text) { fail_batch(number, code, text); }}) {
  for (const auto experts : config_.engine->shape().layer_experts)
    activations_.emplace_back(experts);
}

// ---------------------------------------------------------------------------------------------------------------
// Sequences come and go

void serving_loop::submit(const generation_request& request, const caf::strong_actor_ptr& sender) {
  if (!sender)
    return; // nobody to answer
  const auto session = caf::actor_cast<token_receiver_actor>(sender);
  const auto refuse = [&](ec code, const std::string& text) {
    fail(session, request.id, request.attempt, code, text);
  };
  if (const auto known = by_id_.find(request.id); known != by_id_.end()) {
    if (sequences_.at(known->second).attempt >= request.attempt)
      return; // the session has moved on from this attempt, or it came twice
    retire(known->second);
  }
  if (draining_)
    return refuse(ec::shutting_down, config_.address.name + " is draining");
  if (const auto flaw = flaw_of(request, config_.engine->shape()); !flaw.empty())
    return refuse(ec::bad_request, flaw);
  if (request.emitted.size() >= static_cast<size_t>(request.sampling.max_tokens)) {
    // The old worker died between the last token and saying that it was the last.
    token_update update;
    update.id = request.id;
    update.attempt = request.attempt;
    update.first_index = static_cast<uint32_t>(request.emitted.size());
    update.finish = finish_reason::length;
    self_->send(session, std::move(update));
    return;
  }
  const auto known_tokens = request.prompt.size() + request.emitted.size();
  const auto name = ++last_key_;
  const auto code = known_tokens < batches_.max_positions()
                        ? batches_.add(name, static_cast<uint32_t>(known_tokens), request.priority)
                        : ec::context_exceeded;
  if (code == ec::context_exceeded)
    return refuse(code, std::to_string(known_tokens) + " tokens and one new one do not fit the "
                            + std::to_string(batches_.max_positions()) + " positions of "
                            + config_.address.name);
  if (code != ec::none)
    return refuse(code,
                  std::to_string(batches_.waiting()) + " sequences already wait in " + config_.address.name);
  sequence added;
  added.attempt = request.attempt;
  added.tokens = std::make_shared<sequence_tokens>();
  added.tokens->id = request.id;
  added.tokens->sampling = request.sampling;
  const auto& shape = config_.engine->shape();
  const auto& ends = shape.eos_token_ids;
  std::erase_if(added.tokens->sampling.stop_token_ids, [&](int32_t token) {
    const auto never = token < 0 || token >= static_cast<int64_t>(shape.vocab_size);
    const auto ignored =
        request.sampling.ignore_eos && std::find(ends.begin(), ends.end(), token) != ends.end();
    return never || ignored;
  });
  added.tokens->num_prompt = static_cast<uint32_t>(request.prompt.size());
  added.tokens->tokens = request.prompt;
  added.tokens->tokens.insert(added.tokens->tokens.end(), request.emitted.begin(), request.emitted.end());
  added.session = session;
  added.wants_prompt_logprobs = request.sampling.prompt_logprobs >= 0 && request.emitted.empty();
  added.arrived = self_->clock().now();
  sequences_.emplace(name, std::move(added));
  by_id_.insert_or_assign(request.id, name);
  if (++sessions_[session.address()] == 1)
    self_->monitor(session);
  pump();
}

void serving_loop::cancel(const sequence_id& id, uint32_t attempt) {
  const auto known = by_id_.find(id);
  if (known == by_id_.end() || sequences_.at(known->second).attempt > attempt)
    return;
  retire(known->second);
  pump();
  settle();
}

void serving_loop::down(const caf::actor_addr& address) {
  if (experts_.down(address) || sessions_.count(address) == 0)
    return;
  std::vector<key> orphans;
  for (const auto& [name, s] : sequences_)
    if (!s.cancelled && s.session.address() == address)
      orphans.push_back(name);
  for (const auto name : orphans)
    retire(name);
  pump();
  settle();
}

/// Forgets a sequence, at once or as soon as its micro-batch is back.
void serving_loop::retire(key name) {
  auto& s = sequences_.at(name);
  by_id_.erase(s.tokens->id);
  leave_session(s.session);
  if (!batches_.in_flight(name)) {
    erase(name);
    return;
  }
  s.cancelled = true;
  std::vector<uint32_t> numbers;
  for (const auto& [number, flying] : flying_)
    numbers.push_back(number);
  for (const auto number : numbers)
    drop_if_unwanted(number);
}

void serving_loop::erase(key name) {
  batches_.remove(name);
  sequences_.erase(name);
}

/// A micro-batch that only cancelled sequences are in need not wait for its experts.
void serving_loop::drop_if_unwanted(uint32_t number) {
  const auto found = flying_.find(number);
  if (found == flying_.end() || !found->second.at_experts)
    return;
  const auto& names = found->second.sequences;
  if (!std::all_of(names.begin(), names.end(), [&](key name) { return sequences_.at(name).cancelled; }))
    return;
  experts_.drop(number);
  for (const auto name : names)
    erase(name);
  flying_.erase(found);
}

void serving_loop::leave_session(const token_receiver_actor& session) {
  const auto found = sessions_.find(session.address());
  if (found == sessions_.end() || --found->second > 0)
    return;
  sessions_.erase(found);
  self_->demonitor(session.address());
}

void serving_loop::fail(const token_receiver_actor& session, const sequence_id& id, uint32_t attempt, ec code,
                        const std::string& text) {
  if (config_.metrics)
    config_.metrics->on_failure(code);
  self_->send(session, sequence_failed{id, attempt, code, text});
}

// ---------------------------------------------------------------------------------------------------------------
// Micro-batches

/// Starts as many micro-batches as the policy wants and there are sequences for.
void serving_loop::pump() {
  while (flying_.size() < micro_batches_.wanted()) {
    // Equal shares of all that could be on their way: what comes back unequal, as when sequences arrive one
    // by one, is evened out by the next plans.
    const auto wanted = micro_batches_.wanted();
    const auto share = std::max<size_t>(1, (batches_.ready() + batches_.flying() + wanted - 1) / wanted);
    const auto plan = batches_.next(static_cast<uint32_t>(share));
    for (const auto name : plan.preempted) {
      auto& s = sequences_.at(name);
      s.prompt_logprobs.clear(); // they come again with the keys
      ++preemptions_;
      if (config_.metrics)
        config_.metrics->on_preemption();
    }
    if (plan.slices.empty())
      break;
    start(plan);
  }
  if (config_.metrics)
    config_.metrics->on_level(
        {batches_.running(), batches_.waiting(), batches_.pool().num_used(), batches_.pool().num_blocks()});
}

void serving_loop::start(const batch_policy::plan& plan) {
  const auto number = ++last_batch_;
  flying_batch flying;
  flying.batch = std::make_shared<micro_batch>();
  flying.batch->number = number;
  for (const auto& slice : plan.slices) {
    auto& s = sequences_.at(slice.sequence);
    if (!s.started && config_.metrics)
      config_.metrics->on_start(nanoseconds(self_->clock().now() - s.arrived));
    s.started = true;
    step_sequence part;
    part.sequence = s.tokens;
    part.block_table = batches_.blocks(slice.sequence);
    part.first_position = slice.first_position;
    part.num_rows = slice.num_rows;
    part.sample = slice.last;
    part.prompt_logprobs = s.wants_prompt_logprobs && slice.first_position + 1 < s.tokens->num_prompt;
    flying.iteration.rows += slice.num_rows;
    flying.batch->sequences.push_back(std::move(part));
    flying.sequences.push_back(slice.sequence);
  }
  flying.iteration.sequences = static_cast<uint32_t>(plan.slices.size());
  flying.iteration.in_flight = static_cast<uint32_t>(flying_.size() + 1);
  const auto batch = flying.batch;
  flying_.emplace(number, std::move(flying));
  run_step(batch, std::nullopt);
}

/// @param outputs  empty: the first step of the micro-batch
void serving_loop::run_step(const micro_batch_ptr& batch,
                            std::optional<std::vector<expert_outputs>> outputs) {
  // Weak: an engine may finish a step long after the actor has gone.
  auto done = [worker = caf::actor_cast<caf::weak_actor_ptr>(self_)](micro_batch_ptr ran,
                                                                     attention_result result) {
    if (auto strong = caf::actor_cast<caf::strong_actor_ptr>(worker))
      caf::anon_send(
          caf::actor_cast<attention_worker_actor>(strong),
          std::make_shared<attention_step_done>(attention_step_done{std::move(ran), std::move(result)}));
  };
  if (outputs)
    config_.engine->resume(batch, std::move(*outputs), std::move(done));
  else
    config_.engine->begin(batch, std::move(done));
}

void serving_loop::step_done(attention_step_done& done) {
  const auto number = done.batch->number;
  const auto found = flying_.find(number);
  if (found == flying_.end())
    return;
  auto& flying = found->second;
  auto& result = done.result;
  flying.iteration.attention_ns += result.compute_ns;
  if (!result.error.empty()) {
    fail_batch(number, ec::engine_failed, config_.address.name + ": " + result.error);
  } else if (!result.finished) {
    to_experts(flying, std::move(result.dispatch));
  } else {
    auto finished = std::move(flying);
    flying_.erase(found);
    finish(std::move(finished), std::move(result.samples));
    pump();
    settle();
  }
}

void serving_loop::to_experts(flying_batch& flying, moe_dispatch wanted) {
  const auto number = flying.batch->number;
  flying.at_experts = true;
  flying.dispatched = self_->clock().now();
  if (wanted.layer < activations_.size()) {
    auto& counts = activations_[wanted.layer];
    auto active = uint32_t{0};
    for (size_t expert = 0; expert < counts.size() && expert + 1 < wanted.offsets.size(); ++expert) {
      const auto rows = wanted.offsets[expert + 1] - wanted.offsets[expert];
      counts[expert] += rows;
      active += rows > 0 ? 1 : 0;
    }
    if (active > 0)
      flying.rows_per_expert += static_cast<double>(wanted.slots.size()) / active;
  }
  ++flying.layers;
  const auto& names = flying.sequences;
  if (std::all_of(names.begin(), names.end(), [&](key name) { return sequences_.at(name).cancelled; })) {
    drop_if_unwanted(number);
    pump();
    settle();
    return;
  }
  experts_.dispatch(number, std::move(wanted));
}

void serving_loop::from_experts(uint32_t number, std::vector<expert_outputs> outputs, uint64_t expert_ns) {
  auto& flying = flying_.at(number);
  flying.at_experts = false;
  flying.iteration.waiting_ns += nanoseconds(self_->clock().now() - flying.dispatched);
  flying.iteration.expert_ns += expert_ns;
  run_step(flying.batch, std::move(outputs));
}

void serving_loop::finish(flying_batch flying, std::vector<sampled_sequence> samples) {
  ++iterations_;
  micro_batch_policy::measurement seen;
  seen.in_flight = flying.iteration.in_flight;
  seen.attention_ns = static_cast<double>(flying.iteration.attention_ns);
  seen.waiting_ns = static_cast<double>(flying.iteration.waiting_ns);
  seen.expert_ns = static_cast<double>(flying.iteration.expert_ns);
  seen.rows_per_expert = flying.layers > 0 ? flying.rows_per_expert / flying.layers : 0;
  micro_batches_.observe(seen);
  std::vector<sampled_sequence> by_sequence(flying.sequences.size());
  for (auto& sample : samples)
    if (sample.sequence < by_sequence.size())
      by_sequence[sample.sequence] = std::move(sample);
  auto sampled = uint32_t{0};
  for (size_t i = 0; i < by_sequence.size(); ++i) {
    const auto name = flying.sequences[i];
    auto& s = sequences_.at(name);
    if (s.cancelled) {
      erase(name);
      continue;
    }
    sampled += by_sequence[i].has_token ? 1 : 0;
    batches_.complete(name, by_sequence[i].has_token);
    take_sample(name, s, std::move(by_sequence[i]));
  }
  if (config_.metrics) {
    config_.metrics->on_iteration(flying.iteration);
    config_.metrics->on_tokens(flying.iteration.rows, sampled);
  }
}

void serving_loop::take_sample(key name, sequence& s, sampled_sequence sample) {
  if (s.wants_prompt_logprobs)
    std::move(sample.prompt_logprobs.begin(), sample.prompt_logprobs.end(),
              std::back_inserter(s.prompt_logprobs));
  if (!sample.has_token)
    return;
  auto& tokens = *s.tokens;
  token_update update;
  update.id = tokens.id;
  update.attempt = s.attempt;
  update.first_index = static_cast<uint32_t>(num_new(tokens));
  if (s.wants_prompt_logprobs) {
    update.prompt_logprobs = std::exchange(s.prompt_logprobs, {});
    s.wants_prompt_logprobs = false;
  }
  const auto& sampling = tokens.sampling;
  const auto& stops = sampling.stop_token_ids;
  const auto token = sample.token.token;
  if (num_new(tokens) >= sampling.min_tokens && std::find(stops.begin(), stops.end(), token) != stops.end()) {
    update.finish = finish_reason::stop;
    update.stop_token = token;
  } else {
    tokens.tokens.push_back(token);
    update.tokens.push_back(std::move(sample.token));
    if (num_new(tokens) >= sampling.max_tokens || tokens.tokens.size() >= batches_.max_positions())
      update.finish = finish_reason::length;
  }
  const auto reason = update.finish;
  self_->send(s.session, std::move(update));
  if (reason == finish_reason::none)
    return;
  if (config_.metrics)
    config_.metrics->on_finish(reason);
  retire(name);
}

void serving_loop::fail_batch(uint32_t number, ec code, const std::string& text) {
  const auto flying = std::move(flying_.at(number));
  flying_.erase(number);
  for (const auto name : flying.sequences) {
    auto& s = sequences_.at(name);
    if (!s.cancelled) {
      fail(s.session, s.tokens->id, s.attempt, code, text);
      by_id_.erase(s.tokens->id);
      leave_session(s.session);
    }
    erase(name);
  }
  pump();
  settle();
}

// ---------------------------------------------------------------------------------------------------------------
// What others ask

void serving_loop::drain(caf::typed_response_promise<caf::unit_t> promise) {
  draining_ = true;
  drained_.push_back(std::move(promise));
  settle();
}

void serving_loop::settle() {
  if (!sequences_.empty())
    return;
  for (auto& promise : std::exchange(drained_, {}))
    promise.deliver(caf::unit);
}

void serving_loop::shut_down() {
  for (auto& promise : std::exchange(drained_, {}))
    promise.deliver(make_error(ec::shutting_down, config_.address.name + " shuts down"));
}

worker_hello serving_loop::hello() const {
  const auto& shape = config_.engine->shape();
  worker_hello result;
  result.address = config_.address;
  result.fingerprint = shape.fingerprint;
  result.numerics_class = shape.numerics_class;
  result.term = experts_.view().term;
  result.max_num_seqs = config_.max_num_seqs;
  result.kv_capacity_tokens = uint64_t{config_.engine->num_blocks()} * config_.engine->block_tokens();
  result.max_model_len = batches_.max_positions();
  result.layer_experts = shape.layer_experts;
  for (const auto& [id, name] : by_id_)
    result.running.push_back(id);
  return result;
}

lease_renewal serving_loop::load() {
  lease_renewal result;
  result.id = config_.address.id;
  result.term = experts_.view().term;
  result.running = batches_.running();
  result.waiting = batches_.waiting();
  result.kv_tokens_used = uint64_t{batches_.pool().num_used()} * config_.engine->block_tokens();
  result.activations = activations_;
  for (auto& layer : activations_)
    std::fill(layer.begin(), layer.end(), 0);
  return result;
}

attention_status serving_loop::status() const {
  attention_status result;
  result.running = batches_.running();
  result.waiting = batches_.waiting();
  result.kv_blocks = batches_.pool().num_blocks();
  result.kv_blocks_used = batches_.pool().num_used();
  result.preemptions = preemptions_;
  result.iterations = iterations_;
  result.expert_retries = experts_.retries();
  result.placement_epoch = experts_.view().epoch;
  return result;
}

} // namespace troupe
