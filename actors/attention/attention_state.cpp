#include "actors/attention/attention_state.hpp"

#include <algorithm>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/generation_check.hpp"
#include "actors/defaults.hpp"
#include "actors/timeline/timeline.hpp"

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

} // namespace

attention_state::attention_state(attention_worker_actor::pointer self, attention_worker_config config)
    : self_(self),
      config_(std::move(config)),
      batches_(limits_of(config_)),
      micro_batches_(policy_of(config_)),
      experts_(
          self, config_,
          {[this](uint32_t number, std::vector<expert_outputs> outputs, uint64_t expert_ns) {
             from_experts(number, std::move(outputs), expert_ns);
           },
           [this](uint32_t number, ec code, const std::string& text) { fail_batch(number, code, text); }}) {
  for (const auto experts : config_.engine->shape().layer_experts)
    counts_.rows.emplace_back(experts);
  if (config_.metrics)
    config_.metrics->on_bounds({config_.max_num_seqs, config_.engine->num_blocks(),
                                uint64_t{config_.engine->num_blocks()} * config_.engine->block_tokens()});
}

// ---------------------------------------------------------------------------------------------------------------
// Sequences come and go

void attention_state::submit(const generation_request& request, const caf::strong_actor_ptr& sender) {
  if (!sender)
    return; // nobody to answer
  const auto session = caf::actor_cast<token_receiver_actor>(sender);
  const auto trace = timeline::key_if_traced(request.context);
  timeline::span accepting(timeline::event_kind::accept_sequence, trace);
  accepting.args() = {request.id.request.value, timeline::packed(request.id.choice, request.attempt)};
  const auto refuse = [&](ec code, const std::string& text) {
    fail(session, request.context, request.id, request.attempt, code, text);
  };
  if (const auto known = by_id_.find(request.id); known != by_id_.end()) {
    if (sequences_.at(known->second).attempt >= request.attempt)
      return; // the session has moved on from this attempt, or it came twice
    retire(known->second);
  }
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
  const auto code =
      known_tokens < batches_.max_positions()
          ? batches_.add(name, static_cast<uint32_t>(known_tokens), request.priority, prefix_of(request))
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
  const auto vocab_size = static_cast<int64_t>(config_.engine->shape().vocab_size);
  std::erase_if(added.tokens->sampling.stop_token_ids,
                [&](int32_t token) { return token < 0 || token >= vocab_size; });
  added.tokens->num_prompt = static_cast<uint32_t>(request.prompt.size());
  added.tokens->tokens = request.prompt;
  added.tokens->tokens.insert(added.tokens->tokens.end(), request.emitted.begin(), request.emitted.end());
  added.session = session;
  added.context = request.context;
  added.trace = trace;
  added.wants_prompt_logprobs = request.sampling.prompt_logprobs >= 0 && request.emitted.empty();
  added.arrived = added.heard = self_->clock().now();
  if (trace != 0)
    timeline::name_request(trace, request.context, request.id.request.value);
  sequences_.emplace(name, std::move(added));
  by_id_.insert_or_assign(request.id, name);
  if (++sessions_[session.address()] == 1)
    self_->monitor(session);
  say("sequence-started", request.context, request.id,
      std::to_string(request.prompt.size()) + " prompt tokens, " + std::to_string(request.emitted.size())
          + " emitted before, attempt " + std::to_string(request.attempt));
  pump();
}

/// Choices of one request share their prompt. One that wants logprobs of the prompt computes it by itself.
batch_policy::common_prefix attention_state::prefix_of(const generation_request& request) const {
  if (request.sampling.prompt_logprobs >= 0)
    return {};
  for (auto i = by_id_.lower_bound({request.id.request, 0});
       i != by_id_.end() && i->first.request == request.id.request; ++i) {
    const auto& other = *sequences_.at(i->second).tokens;
    if (other.num_prompt != request.prompt.size()
        || !std::equal(request.prompt.begin(), request.prompt.end(), other.tokens.begin()))
      return {}; // not what a session sends
  }
  return {request.id.request.value, static_cast<uint32_t>(request.prompt.size())};
}

void attention_state::cancel(const sequence_id& id, uint32_t attempt) {
  const auto known = by_id_.find(id);
  if (known == by_id_.end() || sequences_.at(known->second).attempt > attempt)
    return;
  const auto& s = sequences_.at(known->second);
  say("sequence-cancelled", s.context, id,
      "the session wants no more of it, after "
          + std::to_string(s.tokens->tokens.size() - s.tokens->num_prompt) + " tokens");
  retire(known->second);
  pump();
}

void attention_state::down(const caf::actor_addr& address) {
  if (experts_.down(address) || sessions_.count(address) == 0)
    return;
  std::vector<key> orphans;
  for (const auto& [name, s] : sequences_)
    if (!s.cancelled && s.session.address() == address)
      orphans.push_back(name);
  for (const auto name : orphans) {
    const auto& s = sequences_.at(name);
    say("sequence-cancelled", s.context, s.tokens->id, "its gateway is gone");
    retire(name);
  }
  pump();
}

/// Forgets a sequence, at once or as soon as its micro-batch is back.
void attention_state::retire(key name) {
  auto& s = sequences_.at(name);
  part(s);
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

void attention_state::erase(key name) {
  batches_.remove(name);
  sequences_.erase(name);
}

/// A micro-batch that only cancelled sequences are in need not wait for its experts.
void attention_state::drop_if_unwanted(uint32_t number) {
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

/// The session has nothing to do with this sequence any more.
void attention_state::part(const sequence& s) {
  if (s.trace != 0)
    trace_end(s);
  by_id_.erase(s.tokens->id);
  const auto found = sessions_.find(s.session.address());
  if (found == sessions_.end() || --found->second > 0)
    return;
  sessions_.erase(found);
  self_->demonitor(s.session.address());
}

void attention_state::say(const char* event, const request_context& context, const sequence_id& id,
                          const std::string& text) {
  if (config_.metrics && !context.id.empty())
    config_.metrics->on_request({event, context, "choice " + std::to_string(id.choice) + ": " + text});
}

void attention_state::fail(const token_receiver_actor& session, const request_context& context,
                           const sequence_id& id, uint32_t attempt, ec code, const std::string& text) {
  say("sequence-failed", context, id, text);
  if (config_.metrics)
    config_.metrics->on_failure(code);
  self_->send(session, sequence_failed{id, attempt, code, text});
}

// ---------------------------------------------------------------------------------------------------------------
// What others ask

worker_hello attention_state::hello() {
  const auto& shape = config_.engine->shape();
  worker_hello result;
  result.address = config_.address;
  result.fingerprint = shape.fingerprint;
  result.numerics_class = shape.numerics_class;
  result.term = experts_.routing().term;
  result.max_num_seqs = config_.max_num_seqs;
  result.kv_capacity_tokens = uint64_t{config_.engine->num_blocks()} * config_.engine->block_tokens();
  result.max_model_len = batches_.max_positions();
  result.layer_experts = shape.layer_experts;
  for (const auto& [id, name] : by_id_)
    result.running.push_back(id);
  result.engine = watch_.look(self_->clock().now());
  return result;
}

lease_renewal attention_state::load() {
  lease_renewal result;
  result.id = config_.address.id;
  result.term = experts_.routing().term;
  result.running = batches_.running();
  result.waiting = batches_.waiting();
  result.kv_tokens_used = uint64_t{batches_.pool().num_used()} * config_.engine->block_tokens();
  result.engine = watch_.look(self_->clock().now());
  if (config_.metrics)
    config_.metrics->on_engine(result.engine);
  for (const auto& [number, flying] : flying_)
    result.at_experts += flying.at_experts ? 1 : 0;
  result.complaints = experts_.complaints();
  return result;
}

attention_status attention_state::status() const {
  attention_status result;
  result.running = batches_.running();
  result.waiting = batches_.waiting();
  result.kv_blocks = batches_.pool().num_blocks();
  result.kv_blocks_used = batches_.pool().num_used();
  result.preemptions = preemptions_;
  result.iterations = iterations_;
  result.expert_retries = experts_.retries();
  result.placement_epoch = experts_.routing().epoch;
  return result;
}

} // namespace troupe
