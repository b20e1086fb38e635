// A small cluster on simulated engines under virtual time: attention workers, expert hosts, and clients that
// collect their results. The test plays sessions, scheduler and members.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/attention_metrics.hpp"
#include "actors/attention/attention_state.hpp"
#include "actors/attention/attention_worker.hpp"
#include "actors/cluster/directory.hpp"
#include "actors/expert/expert_host.hpp"
#include "actors/expert/expert_host_metrics.hpp"
#include "tests/simulation/simulated_engine.hpp"
#include "tests/unit/actors/deterministic_system.hpp"
#include "tests/unit/actors/placement_edits.hpp"

namespace troupe {

/// A client's results for one sequence, checked on arrival.
struct outcome {
  hash_model_output output;
  std::vector<std::uint32_t> attempts; ///< of each update
  std::size_t first_index = 0;         ///< of the first update
  bool finished = false;
  ec failure = ec::none;
  std::string failure_text;
};

/// Counts the reports to the metrics listeners.
struct counted_attention : attention_metrics {
  void on_iteration(const iteration& done) override {
    ++iterations;
    widest = std::max(widest, done.in_flight);
    most_rows = std::max(most_rows, done.rows);
    iteration_tokens += done.tokens;
  }

  void on_tokens(std::uint32_t computed, std::uint32_t) override { rows += computed; }

  void on_preemption(std::uint32_t num_computed) override {
    ++preemptions;
    preempted_tokens += num_computed;
  }

  void on_prefix(std::uint32_t num_known, std::uint32_t num_cached) override {
    prefix_queries += num_known;
    prefix_hits += num_cached;
  }

  void on_expert_retry(ec code) override { ++retries[code]; }

  void on_hedge() override { ++hedges; }

  void on_hedge_refused() override { ++hedges_refused; }

  void on_failure(ec code) override { ++failures[code]; }

  std::uint64_t iterations = 0;
  std::uint32_t widest = 0;
  std::uint32_t most_rows = 0;
  std::uint64_t iteration_tokens = 0;
  std::uint64_t rows = 0;
  std::uint64_t prefix_queries = 0;
  std::uint64_t prefix_hits = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t preempted_tokens = 0;
  std::uint64_t hedges = 0;
  std::uint64_t hedges_refused = 0;
  std::map<ec, std::uint64_t> retries;
  std::map<ec, std::uint64_t> failures;
};

struct counted_host : expert_host_metrics {
  void on_step(std::uint32_t, std::uint32_t num_batches, std::span<const std::uint64_t>,
               std::uint64_t) override {
    ++steps;
    most_merged = std::max(most_merged, num_batches);
  }

  void on_batch(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t) override { ++batches; }

  void on_refusal(ec code) override { ++refusals[code]; }

  std::uint64_t batches = 0;
  std::uint64_t steps = 0;
  std::uint32_t most_merged = 0;
  std::map<ec, std::uint64_t> refusals;
};

class serving_system : public deterministic_system {
 public:
  struct host {
    worker_address address;
    std::shared_ptr<simulated_device> device;
    std::shared_ptr<simulated_device> loader;
    std::shared_ptr<simulated_expert_engine> engine;
    std::shared_ptr<counted_host> metrics;
    expert_host_actor actor;
  };

  struct worker {
    worker_address address;
    std::shared_ptr<simulated_device> device;
    std::shared_ptr<simulated_attention_engine> engine;
    std::shared_ptr<counted_attention> metrics;
    local_attention_worker_actor actor;
  };

  using outcomes = std::map<sequence_id, outcome>;

  static model_shape small_shape() {
    model_shape result;
    result.fingerprint = "modelled";
    result.numerics_class = "modelled";
    result.vocab_size = 997;
    result.max_model_len = 96;
    result.row_bytes = 64;
    result.num_topk = 2;
    result.layer_experts = {8, 0, 6, 8};
    return result;
  }

  hash_model model{small_shape(), 0.5};
  simulated_costs costs;
  placement experts;
  std::vector<worker_address> members;
  local_directory_actor directory;

  void SetUp() override {
    deterministic_system::SetUp();
    directory = root(system.spawn(local_directory));
    experts.term = 1;
    for (const auto count : model.shape.layer_experts)
      experts.layers.push_back(shared_layer({1, std::vector<expert_hosts>(count)}));
  }

  /// An expert host that holds nothing yet.
  host add_host(const std::string& name, expert_host_config config = {}, bool has_files = true) {
    host result;
    result.address = {{++last_worker_}, worker_role::expert, name, ""};
    result.device = add_device();
    result.loader = add_device();
    simulated_expert_engine::config settings;
    settings.model = model;
    settings.costs = costs;
    settings.has_files = has_files;
    result.engine = std::make_shared<simulated_expert_engine>(result.device, result.loader, settings);
    result.metrics = std::make_shared<counted_host>();
    config.address = result.address;
    config.engine = result.engine;
    config.metrics = result.metrics;
    result.actor = root(spawn_expert_host(system, config));
    announce(result.address, caf::actor_cast<caf::strong_actor_ptr>(result.actor));
    return result;
  }

  /// An attention worker with the blocks and limits of `config` and `settings`.
  worker add_worker(const std::string& name, attention_worker_config config = {},
                    simulated_attention_engine::config settings = {}) {
    worker result;
    result.address = {{++last_worker_}, worker_role::attention, name, ""};
    result.device = add_device();
    settings.model = model;
    settings.costs = costs;
    result.engine = std::make_shared<simulated_attention_engine>(result.device, settings);
    result.metrics = std::make_shared<counted_attention>();
    config.address = result.address;
    config.directory = directory;
    config.engine = result.engine;
    config.metrics = result.metrics;
    result.actor = root(spawn_attention_worker(system, config));
    announce(result.address, caf::actor_cast<caf::strong_actor_ptr>(result.actor));
    return result;
  }

  expert_terms terms_of(const host& who) {
    return std::get<expert_terms>(ask<worker_hello>(who.actor, caf::join_atom_v)->of_role);
  }

  attention_terms terms_of(const worker& who) {
    return std::get<attention_terms>(ask<worker_hello>(who.actor, caf::join_atom_v)->of_role);
  }

  attention_load load_of(const worker& who) {
    return std::get<attention_load>(ask<lease_renewal>(who.actor, load_atom_v)->of_role);
  }

  /// Every expert, or those that `wanted` picks.
  std::vector<expert_id> all_experts(const std::function<bool(expert_id)>& wanted = {}) const {
    std::vector<expert_id> result;
    for (std::uint32_t layer = 0; layer < model.shape.layer_experts.size(); ++layer)
      for (std::uint32_t index = 0; index < model.shape.layer_experts[layer]; ++index)
        if (!wanted || wanted({layer, index}))
          result.push_back({layer, index});
    return result;
  }

  /// Orders a host to hold `wanted`, waits until it does, and adds it to the placement.
  void load(const host& at, const std::vector<expert_id>& wanted) {
    const auto report = ask_within<host_report>(std::chrono::seconds{60}, at.actor,
                                                host_order{experts.term, ++orders_, wanted});
    ASSERT_TRUE(report);
    ASSERT_EQ(report->error, "");
    place(at, wanted);
  }

  /// Puts into the placement, truly or not, that `at` hosts `wanted`.
  void place(const host& at, const std::vector<expert_id>& wanted) {
    for (const auto id : wanted) {
      auto& hosts = edit(experts.layers[id.layer]).experts[id.index].hosts;
      if (std::find(hosts.begin(), hosts.end(), at.address.id) == hosts.end())
        hosts.push_back(at.address.id);
    }
  }

  /// Takes a host out of placement and membership.
  void remove(const worker_address& gone) {
    std::erase_if(members, [&](const worker_address& member) { return member.id == gone.id; });
    for (auto& layer : experts.layers)
      for (auto& hosts : edit(layer).experts)
        std::erase(hosts.hosts, gone.id);
  }

  /// Publishes placement and members to `receivers` under the next epoch; every layer gets a new version.
  template <class... Receivers>
  void publish(const Receivers&... receivers) {
    ++experts.epoch;
    for (auto& layer : experts.layers)
      ++edit(layer).version;
    const cluster_view view{experts, members, true};
    (caf::anon_send(receivers.actor, view), ...);
    run();
  }

  /// A session that collects its results in `results`. Any number of sequences.
  token_receiver_actor add_client(outcomes& results) {
    return root(
        system.spawn([&results](token_receiver_actor::pointer) -> token_receiver_actor::behavior_type {
          return {[&results](const token_update& update) { record(results, update); },
                  [&results](const sequence_failed& failed) {
                    auto& known = results[failed.id];
                    EXPECT_FALSE(known.finished) << failed.text;
                    known.failure = failed.code;
                    known.failure_text = failed.text;
                    known.finished = true;
                  }};
        }));
  }

  void submit(const worker& at, const token_receiver_actor& client, const generation_request& request) {
    caf::send_as(client, at.actor, request);
  }

  generation_request make_request(std::uint64_t number, std::uint32_t prompt_tokens,
                                  std::int32_t max_tokens) const {
    generation_request result;
    result.id = {{number}, 0};
    result.sampling.seed = number * 7;
    result.sampling.max_tokens = max_tokens;
    for (std::uint32_t i = 0; i < prompt_tokens; ++i)
      result.prompt.push_back(static_cast<std::int32_t>((number * 131 + i * 17) % model.shape.vocab_size));
    return result;
  }

  hash_model_output expected(const generation_request& request) const {
    return hash_model_tokens(model, request, model.shape.max_model_len);
  }

  static bool all_finished(const outcomes& results, std::size_t count) {
    return results.size() == count && std::all_of(results.begin(), results.end(), [](const auto& entry) {
             return entry.second.finished;
           });
  }

  attention_status status_of(const worker& at) {
    const auto result = ask<attention_status>(at.actor, status_atom_v);
    EXPECT_TRUE(result);
    return result ? *result : attention_status{};
  }

 private:
  std::shared_ptr<simulated_device> add_device() {
    auto result = std::make_shared<simulated_device>(system);
    root(result->executor());
    return result;
  }

  void announce(const worker_address& address, const caf::strong_actor_ptr& actor) {
    members.push_back(address);
    caf::anon_send(directory, caf::publish_atom_v, address.name, actor);
    run();
  }

  static void record(outcomes& results, const token_update& update) {
    auto& known = results[update.id];
    EXPECT_FALSE(known.finished) << "tokens after the end";
    EXPECT_TRUE(known.attempts.empty() || known.attempts.back() <= update.attempt);
    known.attempts.push_back(update.attempt);
    auto& output = known.output;
    if (!update.prompt_logprobs.empty()) {
      EXPECT_TRUE(output.prompt_logprobs.empty()) << "prompt logprobs came twice";
      EXPECT_EQ(update.first_index, 0U);
      output.prompt_logprobs = update.prompt_logprobs;
    }
    if (known.attempts.size() == 1)
      known.first_index = update.first_index;
    EXPECT_EQ(update.first_index, known.first_index + output.tokens.size())
        << "a token is missing or came twice";
    output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
    output.finish = update.finish;
    known.finished = update.finish != finish_reason::none;
  }

  std::uint64_t orders_ = 0;
  std::uint64_t last_worker_ = 100;
};

} // namespace troupe
