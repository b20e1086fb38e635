#include "actors/attention/attention_state.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/generation_check.hpp"
#include "actors/protocol/defaults.hpp"
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
  result.reaches = engine.kv_reaches();
  result.retains = config.prefix_caching;
  return result;
}

/// A block must end where a name does.
std::uint32_t prefix_unit_of(const attention_engine& engine) {
  return std::min(prefix_unit, engine.block_tokens());
}

micro_batch_policy::config policy_of(const attention_worker_config& config) {
  micro_batch_policy::config result;
  result.max_micro_batches = config.max_micro_batches;
  result.min_micro_batches = config.min_micro_batches;
  return result;
}

} // namespace

attention_state::attention_state(local_attention_worker_actor::pointer self, attention_worker_config config)
    : self_(self),
      config_(std::move(config)),
      batches_(limits_of(config_)),
      micro_batches_(policy_of(config_)),
      experts_(self, config_,
               {[this](std::uint32_t number, std::vector<expert_outputs> outputs, std::uint64_t expert_ns) {
                  from_experts(number, std::move(outputs), expert_ns);
                },
                [this](std::uint32_t number, ec code, const std::string& text) {
                  fail_batch(number, code, text);
                }}) {
  for (const auto experts : config_.engine->shape().layer_experts)
    counts_.rows.emplace_back(experts);
  if (config_.metrics)
    config_.metrics->on_bounds({config_.max_num_seqs, config_.engine->num_blocks(), batches_.capacity()});
}

// ---------------------------------------------------------------------------------------------------------------
// Sequences

void attention_state::submit(const generation_request& request, const caf::strong_actor_ptr& sender) {
  if (!sender)
    return; // there is no session to answer
  const auto session = caf::actor_cast<token_receiver_actor>(sender);
  const auto trace = timeline::key_if_traced(request.context);
  timeline::span accepting(timeline::event_kind::accept_sequence, trace);
  accepting.args() = {request.id.request.value, timeline::packed(request.id.choice, request.attempt)};
  const auto refuse = [&](ec code, const std::string& text) {
    fail(session, request.context, request.id, request.attempt, code, text);
  };
  if (const auto known = sequences_.find(request.id)) {
    if (sequences_.at(*known).attempt >= request.attempt)
      return; // an older attempt, or a request that came twice
    retire(*known);
  }
  if (const auto flaw = flaw_of(request, config_.engine->shape()); !flaw.empty())
    return refuse(ec::bad_request, flaw);
  if (request.emitted.size() >= static_cast<std::size_t>(request.sampling.max_tokens)) {
    // The worker before died after it had sent the last token and before it had said that it was the last.
    token_update update;
    update.id = request.id;
    update.attempt = request.attempt;
    update.first_index = static_cast<std::uint32_t>(request.emitted.size());
    update.finish = finish_reason::length;
    self_->send(session, std::move(update));
    return;
  }
  const auto known_tokens = request.prompt.size() + request.emitted.size();
  const auto wants_prompt_logprobs = request.sampling.prompt_logprobs >= 0 && request.emitted.empty();
  const auto name = sequences_.next_key();
  auto code = ec::context_exceeded;
  accepted_sequence added;
  if (known_tokens < batches_.max_positions()) {
    added.tokens = std::make_shared<sequence_tokens>();
    added.tokens->tokens = request.prompt;
    added.tokens->tokens.insert(added.tokens->tokens.end(), request.emitted.begin(), request.emitted.end());
    added.prefixes = std::make_shared<prefix_chain>(chain_of(request));
    added.prefixes->extend(added.tokens->tokens);
    code = batches_.add(name, static_cast<std::uint32_t>(known_tokens), request.priority, added.prefixes,
                        wants_prompt_logprobs);
  }
  if (code == ec::context_exceeded)
    return refuse(code, std::to_string(known_tokens) + " tokens and one new one do not fit the "
                            + std::to_string(batches_.max_positions()) + " positions of "
                            + config_.address.name);
  if (code != ec::none)
    return refuse(code,
                  std::to_string(batches_.waiting()) + " sequences already wait in " + config_.address.name);
  added.attempt = request.attempt;
  added.tokens->id = request.id;
  added.tokens->sampling = request.sampling;
  const auto vocab_size = static_cast<std::int64_t>(config_.engine->shape().vocab_size);
  std::erase_if(added.tokens->sampling.stop_token_ids,
                [&](std::int32_t token) { return token < 0 || token >= vocab_size; });
  added.tokens->num_prompt = static_cast<std::uint32_t>(request.prompt.size());
  added.session = session;
  added.context = request.context;
  added.trace = trace;
  added.wants_prompt_logprobs = wants_prompt_logprobs;
  added.arrived = added.heard = self_->clock().now();
  if (trace != 0)
    timeline::name_request(trace, request.context, request.id.request.value);
  if (sequences_.add(name, std::move(added)))
    self_->monitor(session);
  say("sequence-started", request.context, request.id,
      std::to_string(request.prompt.size()) + " prompt tokens, " + std::to_string(request.emitted.size())
          + " emitted before, attempt " + std::to_string(request.attempt));
  pump();
}

/// Names for the beginnings of a sequence. Without prefix caching, no other request has the same ones.
prefix_chain attention_state::chain_of(const generation_request& request) const {
  const auto salt = config_.prefix_caching ? request.cache_salt : std::to_string(request.id.request.value);
  return {salt, prefix_unit_of(*config_.engine)};
}

void attention_state::cancel(const sequence_id& id, std::uint32_t attempt) {
  const auto known = sequences_.find(id);
  if (!known || sequences_.at(*known).attempt > attempt)
    return;
  const auto& s = sequences_.at(*known);
  say("sequence-cancelled", s.context, id,
      "the session wants no more of it, after " + std::to_string(s.num_new()) + " tokens");
  retire(*known);
  pump();
}

void attention_state::down(const caf::actor_addr& address) {
  const auto orphans = experts_.down(address) ? std::vector<key>{} : sequences_.of_session(address);
  if (orphans.empty())
    return;
  for (const auto name : orphans) {
    const auto& s = sequences_.at(name);
    say("sequence-cancelled", s.context, s.tokens->id, "its gateway is gone");
    retire(name);
  }
  pump();
}

/// Erases a sequence, at once or when its micro-batch is finished.
void attention_state::retire(key name) {
  part(name);
  if (!batches_.in_flight(name)) {
    erase(name);
    return;
  }
  sequences_.at(name).cancelled = true;
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, flying] : flying_)
    numbers.push_back(number);
  for (const auto number : numbers)
    drop_if_unwanted(number);
}

void attention_state::erase(key name) {
  batches_.remove(name);
  sequences_.erase(name);
}

bool attention_state::is_unwanted(const flying_batch& flying) const {
  return std::all_of(flying.slices.begin(), flying.slices.end(),
                     [this](const auto& slice) { return sequences_.at(slice.sequence).cancelled; });
}

/// Drops a micro-batch that waits for experts if all its sequences are cancelled.
void attention_state::drop_if_unwanted(std::uint32_t number) {
  const auto found = flying_.find(number);
  if (found == flying_.end() || !found->second.at_experts)
    return;
  if (!is_unwanted(found->second))
    return;
  experts_.drop(number);
  for (const auto& slice : found->second.slices)
    erase(slice.sequence);
  flying_.erase(found);
}

/// Ends the connection between a sequence and its session.
void attention_state::part(key name) {
  const auto& s = sequences_.at(name);
  if (s.trace != 0)
    trace_end(s);
  if (sequences_.part(name))
    self_->demonitor(s.session.address());
}

void attention_state::say(const char* event, const request_context& context, const sequence_id& id,
                          const std::string& text) {
  if (config_.metrics && !context.id.empty())
    config_.metrics->on_request({event, context, "choice " + std::to_string(id.choice) + ": " + text});
}

void attention_state::fail(const token_receiver_actor& session, const request_context& context,
                           const sequence_id& id, std::uint32_t attempt, ec code, const std::string& text) {
  say("sequence-failed", context, id, text);
  if (config_.metrics)
    config_.metrics->on_failure(code);
  self_->send(session, sequence_failed{id, attempt, code, text});
}

// ---------------------------------------------------------------------------------------------------------------
// Questions

worker_hello attention_state::hello() {
  const auto& shape = config_.engine->shape();
  worker_hello result;
  result.address = config_.address;
  result.fingerprint = shape.fingerprint;
  result.config_id = shape.config_id;
  result.numerics_class = shape.numerics_class;
  result.term = experts_.routing().term;
  result.layer_experts = shape.layer_experts;
  result.engine = watch_.look(self_->clock().now());
  auto& terms = result.of_role.emplace<attention_terms>();
  terms.max_num_seqs = config_.max_num_seqs;
  terms.kv_capacity_tokens = batches_.capacity();
  terms.max_model_len = batches_.max_positions();
  for (const auto& [id, name] : sequences_.wanted())
    terms.running.push_back(id);
  return result;
}

lease_renewal attention_state::load() {
  lease_renewal result;
  result.id = config_.address.id;
  result.term = experts_.routing().term;
  result.running = batches_.running();
  result.waiting = batches_.waiting();
  result.engine = watch_.look(self_->clock().now());
  if (config_.metrics)
    config_.metrics->on_engine(result.engine);
  auto& load = result.of_role.emplace<attention_load>();
  load.kv_tokens_used = batches_.tokens_used();
  for (const auto& [number, flying] : flying_)
    load.at_experts += flying.at_experts ? 1 : 0;
  load.complaints = experts_.complaints();
  load.prefixes = digest();
  load.prefix_queries = prefix_queries_;
  load.prefix_hits = prefix_hits_;
  return result;
}

/// The landmarks that are in the store, those in use and the newest first. Blocks of one table tell of all.
const std::vector<std::uint64_t>& attention_state::digest() {
  const auto& store = batches_.store();
  if (!config_.prefix_caching || store.revision() == digest_revision_)
    return digest_;
  digest_revision_ = store.revision();
  digest_.clear();
  const auto unit = prefix_unit_of(*config_.engine);
  const auto is_wanted = [unit](const kv_store::content_name& name) {
    return name.table == 0 && is_prefix_landmark(name.num_tokens, unit);
  };
  for (const auto& name : store.names(defaults::max_prefix_digest, is_wanted))
    digest_.push_back(name.prefix.low);
  return digest_;
}

attention_status attention_state::status() const {
  attention_status result;
  result.running = batches_.running();
  result.waiting = batches_.waiting();
  result.kv_blocks = batches_.store().num_blocks();
  result.kv_blocks_used = batches_.store().num_held();
  result.kv_blocks_retained = batches_.store().num_retained();
  result.preemptions = preemptions_;
  result.iterations = iterations_;
  result.expert_retries = experts_.retries();
  result.placement_epoch = experts_.routing().epoch;
  return result;
}

} // namespace troupe
