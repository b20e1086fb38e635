// attention_state: micro-batches in flight, and the tokens sampled from them.
#include <algorithm>
#include <memory>
#include <utility>

#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/attention_state.hpp"
#include "actors/attention/step_rows.hpp"
#include "actors/engine/actor_runner.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

std::uint64_t nanoseconds(std::chrono::steady_clock::duration elapsed) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
}

} // namespace

/// Starts micro-batches until the policy wants no more or no sequence is ready.
void attention_state::pump() {
  while (flying_.size() < micro_batches_.wanted()) {
    // Equal shares of all sequences that could be in flight. If micro-batches became unequal, because
    // sequences arrive one by one, the next plans even them out.
    const auto wanted = micro_batches_.wanted();
    const auto share = std::max<std::size_t>(1, (batches_.ready() + batches_.flying() + wanted - 1) / wanted);
    const auto plan = batches_.next(static_cast<std::uint32_t>(share));
    for (const auto& [name, num_computed] : plan.preempted) {
      auto& s = sequences_.at(name);
      s.prompt_logprobs.clear(); // they are computed again with the keys
      ++preemptions_;
      if (config_.metrics)
        config_.metrics->on_preemption(num_computed);
    }
    for (const auto& [name, num_known, num_cached] : plan.started) {
      auto& s = sequences_.at(name);
      if (s.started)
        continue; // it goes on after a preemption
      s.num_cached = num_cached;
      if (s.wants_prompt_logprobs)
        continue; // it computes all its tokens
      prefix_queries_ += num_known;
      prefix_hits_ += num_cached;
      if (config_.metrics)
        config_.metrics->on_prefix(num_known, num_cached);
    }
    if (plan.slices.empty())
      break;
    start(plan);
  }
  if (config_.metrics)
    config_.metrics->on_level({batches_.running(), batches_.waiting(), batches_.store().num_held(),
                               batches_.store().num_blocks(), batches_.store().num_retained()});
}

void attention_state::start(const batch_policy::plan& plan) {
  const auto number = ++last_batch_;
  flying_batch flying;
  flying.step = std::make_shared<attention_step>();
  flying.step->number = number;
  flying.started = self_->clock().now();
  for (const auto& slice : plan.slices) {
    auto& s = sequences_.at(slice.sequence);
    if (!s.started && config_.metrics)
      config_.metrics->on_start(nanoseconds(flying.started - s.arrived));
    if (!s.started && s.trace != 0)
      trace_wait(s, flying.started);
    s.started = true;
    if (s.trace != 0)
      flying.step->trace = timeline::mixed(config_.address.id.value + number);
    add_slice(*flying.step, {s.tokens, batches_.tables(slice.sequence)}, slice,
              config_.engine->block_tokens(), s.wants_prompt_logprobs);
    flying.slices.push_back(slice);
  }
  flying.iteration.rows = static_cast<std::uint32_t>(flying.step->rows.size());
  flying.iteration.sequences = static_cast<std::uint32_t>(plan.slices.size());
  flying.iteration.in_flight = static_cast<std::uint32_t>(flying_.size() + 1);
  const auto step = flying.step;
  flying_.emplace(number, std::move(flying));
  run_pass(step, std::nullopt);
}

/// @param outputs  empty for the first pass of the step
void attention_state::run_pass(const attention_step_ptr& step,
                               std::optional<std::vector<expert_outputs>> outputs) {
  // Weak: an engine may finish a pass long after the actor has ended.
  auto done = [worker = caf::actor_cast<caf::weak_actor_ptr>(self_)](attention_step_ptr ran,
                                                                     attention_result result) {
    post_result<local_attention_worker_actor>(
        worker,
        std::make_shared<attention_step_done>(attention_step_done{std::move(ran), std::move(result)}));
  };
  watch_.begin(step->number, self_->clock().now());
  if (outputs)
    config_.engine->resume(step, std::move(*outputs), std::move(done));
  else
    config_.engine->begin(step, std::move(done));
}

void attention_state::step_done(attention_step_done& done) {
  const auto number = done.step->number;
  watch_.end(number, self_->clock().now());
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
    finish(std::move(finished), std::move(result.tokens));
    pump();
  }
  tell_progress();
}

void attention_state::to_experts(flying_batch& flying, moe_dispatch wanted) {
  const auto number = flying.step->number;
  flying.at_experts = true;
  flying.layer = wanted.layer;
  flying.dispatched = self_->clock().now();
  if (flying.layers == 0) {
    counts_.tokens += wanted.num_rows;
    ++counts_.micro_batches;
  }
  if (wanted.layer < counts_.rows.size()) {
    auto& counts = counts_.rows[wanted.layer];
    auto active = std::uint32_t{0};
    for (std::size_t expert = 0; expert < counts.size() && expert + 1 < wanted.offsets.size(); ++expert) {
      const auto rows = wanted.offsets[expert + 1] - wanted.offsets[expert];
      counts[expert] += rows;
      active += rows > 0 ? 1 : 0;
    }
    if (active > 0)
      flying.rows_per_expert += static_cast<double>(wanted.slots.size()) / active;
  }
  ++flying.layers;
  if (is_unwanted(flying)) {
    drop_if_unwanted(number);
    pump();
    return;
  }
  experts_.dispatch(number, std::move(wanted), flying.step->trace);
}

void attention_state::from_experts(std::uint32_t number, std::vector<expert_outputs> outputs,
                                   std::uint64_t expert_ns) {
  auto& flying = flying_.at(number);
  flying.at_experts = false;
  flying.iteration.waiting_ns += nanoseconds(self_->clock().now() - flying.dispatched);
  if (flying.step->trace != 0)
    trace_expert_wait(flying);
  flying.iteration.expert_ns += expert_ns;
  run_pass(flying.step, std::move(outputs));
}

void attention_state::finish(flying_batch flying, std::vector<step_token> tokens) {
  ++iterations_;
  micro_batch_policy::measurement seen;
  seen.in_flight = flying.iteration.in_flight;
  seen.attention_ns = static_cast<double>(flying.iteration.attention_ns);
  seen.waiting_ns = static_cast<double>(flying.iteration.waiting_ns);
  seen.expert_ns = static_cast<double>(flying.iteration.expert_ns);
  seen.rows_per_expert = flying.layers > 0 ? flying.rows_per_expert / flying.layers : 0;
  micro_batches_.observe(seen);
  if (flying.step->trace != 0)
    trace_iteration(flying);
  for (const auto& slice : flying.slices)
    if (sequences_.at(slice.sequence).cancelled)
      erase(slice.sequence);
    else
      batches_.complete(slice.sequence, slice.last);
  auto sampled = std::uint32_t{0};
  for (auto& token : tokens) {
    const auto name = flying.slices[token.sequence].sequence;
    if (!batches_.contains(name))
      continue; // cancelled
    auto& s = sequences_.at(name);
    if (token.purpose == token_purpose::sample && !token.is_broken) {
      ++sampled;
      flying.iteration.tokens += 1 + (s.num_new() == 0 ? s.tokens->tokens.size() : 0);
    }
    take_token(name, s, std::move(token));
  }
  if (config_.metrics) {
    config_.metrics->on_iteration(flying.iteration);
    config_.metrics->on_tokens(flying.iteration.rows, sampled);
  }
}

/// Tells sessions that have heard nothing for a while that their sequence is alive: a long prefill, and the
/// sequences that wait for it, have no tokens to send. Called only when the engine has finished a step, so
/// that a worker without progress reports none.
void attention_state::tell_progress() {
  const auto now = self_->clock().now();
  if (now < next_progress_)
    return;
  next_progress_ = now + defaults::progress_interval / 5;
  for (auto& [name, s] : sequences_.all()) {
    if (s.cancelled || now - s.heard < defaults::progress_interval)
      continue;
    s.heard = now;
    token_update update;
    update.id = s.tokens->id;
    update.attempt = s.attempt;
    update.first_index = static_cast<std::uint32_t>(s.num_new());
    self_->send(s.session, std::move(update));
  }
}

void attention_state::take_token(key name, accepted_sequence& s, step_token taken) {
  if (taken.purpose == token_purpose::report) {
    s.prompt_logprobs.push_back(std::move(taken.token));
    return;
  }
  auto& tokens = *s.tokens;
  if (taken.is_broken) {
    fail(s.session, s.context, tokens.id, s.attempt, ec::model_broken,
         "the model's logits are not numbers: its weights are damaged, or made for another type");
    retire(name);
    return;
  }
  token_update update;
  update.id = tokens.id;
  update.attempt = s.attempt;
  update.first_index = static_cast<std::uint32_t>(s.num_new());
  if (s.wants_prompt_logprobs) {
    update.prompt_logprobs = std::exchange(s.prompt_logprobs, {});
    s.wants_prompt_logprobs = false;
  }
  update.num_cached = std::exchange(s.num_cached, 0);
  const auto& sampling = tokens.sampling;
  const auto& stops = sampling.stop_token_ids;
  const auto token = taken.token.token;
  const auto stops_here =
      s.num_new() >= sampling.min_tokens && std::find(stops.begin(), stops.end(), token) != stops.end();
  tokens.tokens.push_back(token);
  s.prefixes->extend(tokens.tokens);
  update.tokens.push_back(std::move(taken.token));
  if (stops_here)
    update.finish = finish_reason::stop;
  else if (s.num_new() >= sampling.max_tokens || tokens.tokens.size() >= batches_.max_positions())
    update.finish = finish_reason::length;
  const auto reason = update.finish;
  s.heard = self_->clock().now();
  {
    timeline::span sending(timeline::event_kind::token_sent, s.trace);
    sending.args() = {tokens.id.request.value, timeline::packed(tokens.id.choice, s.attempt),
                      update.first_index};
    self_->send(s.session, std::move(update));
  }
  if (reason == finish_reason::none)
    return;
  if (config_.metrics)
    config_.metrics->on_finish(reason);
  say("sequence-finished", s.context, tokens.id, std::to_string(s.num_new()) + " tokens");
  retire(name);
}

void attention_state::fail_batch(std::uint32_t number, ec code, const std::string& text) {
  const auto flying = std::move(flying_.at(number));
  flying_.erase(number);
  for (const auto& slice : flying.slices) {
    const auto name = slice.sequence;
    auto& s = sequences_.at(name);
    if (!s.cancelled) {
      fail(s.session, s.context, s.tokens->id, s.attempt, code, text);
      part(name);
    }
    erase(name);
  }
  pump();
}

} // namespace troupe
