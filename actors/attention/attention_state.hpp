// State of the attention worker actor: accepts sequences, forms micro-batches, moves each micro-batch through
// the layers, and sends sampled tokens to the sessions.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/actor_addr.hpp>

#include "actors/attention/attention_metrics.hpp"
#include "actors/attention/attention_worker.hpp"
#include "actors/attention/batch_policy.hpp"
#include "actors/attention/expert_dispatcher.hpp"
#include "actors/attention/micro_batch_policy.hpp"
#include "actors/attention/sequence_table.hpp"
#include "actors/engine/engine_watch.hpp"
#include "actors/protocol/history_messages.hpp"

namespace troupe {

/// Part of the attention worker's state; runs on its thread.
///
/// A micro-batch alternates between the engine and the experts until it has samples. Several may be in
/// flight, and none waits for another. A sequence is in at most one of them.
class attention_state {
 public:
  /// @param self  the actor; outlives this
  attention_state(local_attention_worker_actor::pointer self, attention_worker_config config);

  /// A session wants a sequence generated.
  void submit(const generation_request& request, const caf::strong_actor_ptr& session);

  /// The session does not want this attempt, or an older one, any more.
  void cancel(const sequence_id& id, std::uint32_t attempt);

  /// The engine has finished a pass of a step.
  void step_done(attention_step_done& done);

  void update(const cluster_view& view) { experts_.update(view); }

  void tick() { experts_.tick(); }

  /// A monitored actor (a session or an expert host) is down.
  void down(const caf::actor_addr& address);

  worker_hello hello();
  lease_renewal load();

  activation_counts_ptr counts() const { return std::make_shared<const activation_counts>(counts_); }

  attention_status status() const;

 private:
  using key = sequence_table::key;
  using time_point = std::chrono::steady_clock::time_point;

  /// A micro-batch in flight.
  struct flying_batch {
    attention_step_ptr step;
    std::vector<batch_policy::slice> slices; ///< of the step's sequences
    attention_metrics::iteration iteration;
    time_point started;
    time_point dispatched;
    bool at_experts = false;
    double rows_per_expert = 0; ///< summed over the layers
    std::uint32_t layers = 0;
    std::uint32_t layer = 0; ///< the layer whose experts it waits for
  };

  void pump();
  void start(const batch_policy::plan& plan);
  void run_pass(const attention_step_ptr& step, std::optional<std::vector<expert_outputs>> outputs);
  void to_experts(flying_batch& flying, moe_dispatch wanted);
  void from_experts(std::uint32_t number, std::vector<expert_outputs> outputs, std::uint64_t expert_ns);
  void finish(flying_batch flying, std::vector<step_token> tokens);
  void take_token(key name, accepted_sequence& s, step_token taken);
  void tell_progress();
  void fail_batch(std::uint32_t number, ec code, const std::string& text);
  void fail(const token_receiver_actor& session, const request_context& context, const sequence_id& id,
            std::uint32_t attempt, ec code, const std::string& text);
  void say(const char* event, const request_context& context, const sequence_id& id, const std::string& text);
  void retire(key name);
  void erase(key name);
  bool is_unwanted(const flying_batch& flying) const;
  void drop_if_unwanted(std::uint32_t number);
  void trace_wait(const accepted_sequence& s, time_point until) const;
  void trace_end(const accepted_sequence& s) const;
  void trace_expert_wait(const flying_batch& flying) const;
  void trace_iteration(const flying_batch& flying) const;
  void part(key name);
  prefix_chain chain_of(const generation_request& request) const;
  const std::vector<std::uint64_t>& digest();

  local_attention_worker_actor::pointer self_;
  attention_worker_config config_;
  batch_policy batches_;
  micro_batch_policy micro_batches_;
  engine_watch watch_; ///< steps by micro-batch number
  expert_dispatcher experts_;
  sequence_table sequences_;
  std::map<std::uint32_t, flying_batch> flying_; ///< by micro-batch number
  activation_counts counts_;
  time_point next_progress_{}; ///< when to look for sessions that need a progress message
  std::uint32_t last_batch_ = 0;
  std::vector<std::uint64_t> digest_; ///< of revision `digest_revision_` of the KV store
  std::uint64_t digest_revision_ = 0;
  std::uint64_t prefix_queries_ = 0; ///< tokens
  std::uint64_t prefix_hits_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t iterations_ = 0;
};

} // namespace troupe
