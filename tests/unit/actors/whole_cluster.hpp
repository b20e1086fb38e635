// The whole cluster under virtual time: sessions, gateway, scheduler, members, attention workers and expert
// hosts on simulated engines, as processes that the test kills and restarts.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/cluster/member.hpp"
#include "actors/expert/weights_fetcher.hpp"
#include "actors/expert/weights_sender.hpp"
#include "actors/gateway/gateway.hpp"
#include "actors/gateway/session.hpp"
#include "actors/history/history.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/rebalancer/rebalancer.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/serving_system.hpp"

namespace troupe {

/// The workers' memory, and how the scheduler assigns that of attention workers.
struct cluster_memory {
  std::uint32_t num_blocks = 256; ///< of 4 tokens
  std::uint32_t max_num_seqs = 4;
  double admission_quantile = defaults::admission_quantile;
  std::uint64_t host_experts = 0; ///< that an expert host can hold; 0: any number
};

/// A cluster of processes, each a handful of actors that die together.
class whole_cluster : public serving_system {
 public:
  static constexpr std::size_t num_hosts = 3;
  static constexpr std::size_t num_workers = 2;

  /// @param num_with_files  expert hosts that can read weights; the others get theirs from them
  explicit whole_cluster(std::uint32_t seed, std::size_t num_with_files = num_hosts,
                         cluster_memory memory = {})
      : random_(seed), num_replicas_(1 + seed % 2), num_with_files_(num_with_files), memory_(memory) {
    SetUp();
    // Slow enough for deaths to come in the middle of everything: an iteration takes some 30 ms.
    costs.attention_step = std::chrono::milliseconds{2};
    costs.attention_row = std::chrono::microseconds{200};
    costs.expert_weights = std::chrono::milliseconds{1};
    costs.expert_row = std::chrono::microseconds{300};
    costs.expert_load = std::chrono::milliseconds{2};
    start_scheduler();
    for (std::size_t i = 0; i < num_hosts; ++i)
      start_host(i);
    for (std::size_t i = 0; i < num_workers; ++i)
      start_worker(i);
    start_gateway();
    wait_until_whole();
    scheduler_start_ = -defaults::scheduler_away; // long ago
  }

  ~whole_cluster() override {
    requests_.clear();
    TearDown();
  }

  whole_cluster(const whole_cluster&) = delete;
  whole_cluster& operator=(const whole_cluster&) = delete;

  // -------------------------------------------------------------------------------------------------------------
  // Processes

  /// Ends a process at once, in the middle of its work, and restarts it a little later.
  void kill_host(std::size_t index) {
    die(hosts_[index]);
    later(restart_pause(), [this, index] { start_host(index); });
  }

  /// Ends a process in order, as its service does at SIGTERM when nothing depends on it. It stays away.
  void stop_host(std::size_t index) { die(hosts_[index], caf::exit_reason::user_shutdown); }

  void bring_back_host(std::size_t index) { start_host(index); }

  void kill_worker(std::size_t index) {
    die(workers_[index]);
    later(restart_pause(), [this, index] { start_worker(index); });
  }

  /// Stops the engine of a process for good, while its actors continue.
  void hang_host(std::size_t index) { hosts_[index].device->hang(); }

  void resume_host(std::size_t index) { hosts_[index].device->resume(); }

  void hang_worker(std::size_t index) { workers_[index].device->hang(); }

  void resume_worker(std::size_t index) { workers_[index].device->resume(); }

  void kill_scheduler() {
    die(scheduler_process_);
    later(restart_pause(), [this] { start_scheduler(); });
  }

  bool has_scheduler() const { return !scheduler_process_.actors.empty(); }

  /// Kills a random process that is not dead already.
  void kill_anybody() {
    const auto draw = below(8);
    if (draw < num_hosts && !hosts_[draw].actors.empty())
      kill_host(draw);
    else if (draw >= num_hosts && draw < 6 && !workers_[draw % num_workers].actors.empty())
      kill_worker(draw % num_workers);
    else if (draw >= 6 && has_scheduler() && now() - scheduler_start_ >= defaults::scheduler_away)
      kill_scheduler(); // twice in a row may exceed the wait of new requests
  }

  /// Ends the gateway's process with all its sessions, for good.
  void kill_gateway() {
    publish_service("gateway-0", nullptr);
    for (const auto& actor :
         {caf::actor_cast<caf::actor>(gateway_), caf::actor_cast<caf::actor>(gateway_member_)})
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    for (const auto& request : requests_)
      if (const auto session = caf::actor_cast<caf::strong_actor_ptr>(request.session))
        caf::anon_send_exit(caf::actor_cast<caf::actor>(session), caf::exit_reason::kill);
    gateway_ = nullptr;
    gateway_member_ = nullptr;
  }

  // -------------------------------------------------------------------------------------------------------------
  // Placement

  /// Moves every expert from one of its hosts to another one that lacks it.
  /// @returns false if the scheduler has no placement to change
  bool move_everything() {
    placement_command all;
    all.action = placement_action::assign;
    const auto status = scheduler_says();
    std::map<worker_id, std::string> names;
    for (const auto& one : status.workers)
      if (one.address.role == worker_role::expert)
        names[one.address.id] = one.address.name;
    if (!status.ready || names.size() < num_hosts)
      return false;
    for (std::uint32_t layer = 0; layer < status.experts.layers.size(); ++layer)
      for (std::uint32_t index = 0; index < status.experts.layers[layer]->experts.size(); ++index) {
        auto hosts = status.experts.layers[layer]->experts[index].hosts;
        named_hosts wanted{{layer, index}, {}};
        for (const auto& [id, name] : names)
          if (std::find(hosts.begin(), hosts.end(), id) == hosts.end()) {
            hosts[below(static_cast<std::uint32_t>(hosts.size()))] = id;
            break;
          }
        for (auto id : hosts)
          wanted.hosts.push_back(names.at(id));
        all.experts.push_back(std::move(wanted));
      }
    caf::anon_send(rebalancer_, std::move(all));
    return true;
  }

  rebalancer_status rebalancer_says() { return *ask<rebalancer_status>(rebalancer_, status_atom_v); }

  // -------------------------------------------------------------------------------------------------------------
  // Requests

  /// Opens a session of random size. Its client leaves after `patience` tokens, unless that is 0.
  /// @param num_choices  0: random
  void open_session(std::size_t patience = 0, std::uint32_t num_choices = 0) {
    auto& added = requests_.emplace_back();
    added.patience = patience;
    auto& request = added.request;
    request.id = {requests_.size()};
    request.num_choices = 1 + below(2);
    if (num_choices > 0)
      request.num_choices = num_choices;
    request.priority = static_cast<std::int32_t>(below(3));
    request.sampling.seed = random_();
    request.sampling.max_tokens = static_cast<std::int32_t>(1 + below(40));
    if (below(4) == 0)
      request.sampling.prompt_logprobs = 1;
    for (auto left = 1 + below(30); left > 0; --left)
      request.prompt.push_back(static_cast<std::int32_t>(below(model.shape.vocab_size)));
    added.listener = std::make_shared<recording_listener>();
    added.listener->num_choices = request.num_choices;
    const auto session = spawn_session(system, gateway_, request, added.listener);
    added.session = caf::actor_cast<caf::weak_actor_ptr>(session);
    caf::actor_cast<caf::abstract_actor*>(session)->attach_functor(
        [&added](const caf::error&) { added.has_ended = true; });
  }

  /// Lets clients leave that have seen enough.
  void leave_impatient_clients() {
    for (auto& request : requests_)
      if (request.patience > 0 && !request.has_left
          && request.listener->choices[0].tokens.size() >= request.patience)
        if (const auto session = caf::actor_cast<caf::strong_actor_ptr>(request.session)) {
          caf::anon_send(caf::actor_cast<session_actor>(session), cancel_atom_v);
          request.has_left = true;
        }
  }

  bool all_over() const {
    return std::all_of(requests_.begin(), requests_.end(),
                       [](const auto& request) { return request.has_left || request.listener->is_over(); });
  }

  /// Checks that every request whose client stayed got exactly the tokens of an undisturbed run.
  void expect_undisturbed_output() {
    for (const auto& [request, listener, session, patience, has_left, has_ended] : requests_) {
      SCOPED_TRACE("request " + std::to_string(request.id.value));
      EXPECT_EQ(listener->calls_after_end, 0U);
      for (const auto& error : listener->errors)
        ADD_FAILURE() << system.render(error);
      for (std::uint32_t choice = 0; choice < request.num_choices; ++choice) {
        generation_request alone;
        alone.id = {request.id, choice};
        alone.prompt = request.prompt;
        alone.sampling = request.sampling;
        const auto wanted = expected(alone);
        std::vector<std::int32_t> tokens;
        for (const auto& token : wanted.tokens)
          tokens.push_back(token.token);
        const auto& got = listener->choices[choice];
        if (has_left && got.finish == finish_reason::none) {
          ASSERT_LE(got.tokens.size(), tokens.size());
          tokens.resize(got.tokens.size());
          EXPECT_EQ(got.tokens, tokens);
          continue;
        }
        EXPECT_EQ(got.tokens, tokens) << "choice " << choice;
        EXPECT_EQ(got.finish, wanted.finish) << "choice " << choice;
        if (request.sampling.prompt_logprobs >= 0) {
          ASSERT_EQ(listener->prompt_logprobs.size(), 1U);
          EXPECT_EQ(listener->prompt_logprobs[0], wanted.prompt_logprobs);
        }
      }
    }
  }

  /// Of all requests.
  std::vector<caf::error> errors() const {
    std::vector<caf::error> result;
    for (const auto& request : requests_)
      result.insert(result.end(), request.listener->errors.begin(), request.listener->errors.end());
    return result;
  }

  /// Checks that no process keeps anything of finished requests.
  void expect_nothing_left() {
    for (const auto& request : requests_)
      EXPECT_TRUE(request.has_ended) << "the session of request " << request.request.id.value
                                     << " is still there";
    for (const auto& one : workers_) {
      const auto status =
          ask<attention_status>(caf::actor_cast<attention_worker_actor>(one.actors[0]), status_atom_v);
      ASSERT_TRUE(status);
      EXPECT_EQ(status->running + status->waiting, 0U) << one.name;
      EXPECT_EQ(status->kv_blocks_used, 0U) << one.name;
    }
    for (const auto& one : hosts_) {
      const auto status =
          ask<expert_host_status>(caf::actor_cast<expert_host_actor>(one.actors[0]), status_atom_v);
      ASSERT_TRUE(status);
      EXPECT_EQ(status->queued_rows, 0U) << one.name;
    }
    const auto status = scheduler_says();
    EXPECT_TRUE(status.ready);
    EXPECT_EQ(status.queued, 0U);
    EXPECT_EQ(status.assigned, 0U);
  }

  // -------------------------------------------------------------------------------------------------------------
  // Time

  /// Moves time, with all planned events.
  void pass(duration time) {
    const auto end = now() + time;
    while (!plans_.empty() && plans_.begin()->first <= end) {
      const auto [when, plan] = *plans_.begin();
      plans_.erase(plans_.begin());
      advance(std::max(duration::zero(), when - now()));
      leave_impatient_clients();
      plan();
    }
    advance(std::max(duration::zero(), end - now()));
    leave_impatient_clients();
  }

  /// Lets a random number of messages be handled, so that the next event happens among others.
  void pass_some_messages() {
    auto left = below(60);
    run_until([&left] { return left-- == 0; }, std::chrono::milliseconds{5});
  }

  void later(duration pause, std::function<void()> plan) { plans_.emplace(now() + pause, std::move(plan)); }

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  duration up_to(std::chrono::microseconds bound) {
    return std::chrono::microseconds{below(static_cast<std::uint32_t>(bound.count()))};
  }

  /// Runs until all planned events have happened, all processes are back, and the cluster serves.
  void wait_until_whole() {
    const auto everybody = num_hosts + num_workers + (gateway_ ? 1 : 0);
    for (const auto deadline = now() + std::chrono::seconds{60}; now() < deadline;) {
      pass(std::chrono::milliseconds{100});
      if (!plans_.empty() || !has_scheduler())
        continue;
      if (const auto status = scheduler_says(); status.ready && status.workers.size() == everybody)
        return;
    }
    FAIL() << "the cluster has not recovered";
  }

  scheduler_status scheduler_says() {
    const auto status =
        ask<scheduler_status>(caf::actor_cast<scheduler_actor>(scheduler_process_.actors[0]), status_atom_v);
    return status ? *status : scheduler_status{};
  }

  /// How often requests got a place after their first one.
  std::size_t num_replays() const {
    return metrics_->waits.size() - std::min(metrics_->waits.size(), requests_.size());
  }

  /// Experts that hosts fetched from others.
  std::uint64_t num_fetched() const {
    auto result = num_fetched_;
    for (const auto& one : hosts_)
      result += one.engine ? one.engine->fetched() : 0;
    return result;
  }

  /// Expert batches that were sent again.
  std::uint64_t num_retries() const {
    std::uint64_t result = 0;
    for (const auto& counts : attention_counts_)
      for (const auto& [code, count] : counts->retries)
        result += count;
    return result;
  }

  /// Sequences that were preempted.
  std::uint64_t num_preemptions() const {
    std::uint64_t result = 0;
    for (const auto& counts : attention_counts_)
      result += counts->preemptions;
    return result;
  }

  /// The workers that an event is about, in order: the first words of its texts.
  std::vector<std::string> named_by(const std::string& event) const {
    std::vector<std::string> result;
    for (const auto& [what, text] : metrics_->events)
      if (what == event)
        result.push_back(text.substr(0, text.find(' ')));
    return result;
  }

  bool serves() { return scheduler_says().ready; }

  bool has_member(const std::string& name) {
    const auto status = scheduler_says();
    return std::any_of(status.workers.begin(), status.workers.end(),
                       [&](const auto& one) { return one.address.name == name; });
  }

  const std::vector<std::pair<std::string, std::string>>& events() const { return metrics_->events; }

 private:
  struct process {
    std::string name;
    std::vector<caf::actor> actors;                    ///< the worker first; empty while it is dead
    std::shared_ptr<simulated_device> device{};        ///< of its engine
    std::shared_ptr<simulated_expert_engine> engine{}; ///< of an expert host
  };

  struct client {
    session_request request;
    std::shared_ptr<recording_listener> listener;
    caf::weak_actor_ptr session;
    std::size_t patience = 0;
    bool has_left = false;  ///< the client
    bool has_ended = false; ///< the session
  };

  /// Less than a new request's wait for a scheduler, minus the pauses between attempts to reach it.
  duration restart_pause() { return std::chrono::milliseconds{20} + up_to(std::chrono::milliseconds{400}); }

  void publish_service(const std::string& name, const caf::strong_actor_ptr& actor) {
    caf::anon_send(directory, caf::publish_atom_v, name, actor);
  }

  /// Kills all actors of a process at once, as `kill -9` does: none sees another one end first.
  void die(process& victim, caf::exit_reason reason = caf::exit_reason::kill) {
    publish_service(victim.name, nullptr);
    publish_service(weights_service(victim.name), nullptr);
    for (const auto& actor : victim.actors)
      caf::anon_send_exit(actor, reason);
    victim.actors.clear();
  }

  member_actor add_member(worker_role role, const caf::strong_actor_ptr& whose) {
    member_config config;
    config.role = role;
    config.directory = directory;
    config.worker = whose;
    config.seed = ++num_members_;
    return root(spawn_member(system, std::move(config)));
  }

  void start_scheduler() {
    scheduler_config config;
    config.num_replicas = num_replicas_;
    config.min_expert_workers = num_hosts;
    config.admission_quantile = memory_.admission_quantile;
    config.metrics = metrics_;
    const auto actor = root(spawn_scheduler(system, std::move(config)));
    const auto history = root(spawn_history(system, {}));
    rebalancer_config planning;
    planning.is_automatic = false; // the test orders all moves
    rebalancer_ = root(spawn_rebalancer(system, fleet_of(actor), history, std::move(planning)));
    scheduler_process_ = {"scheduler",
                          {caf::actor_cast<caf::actor>(actor), caf::actor_cast<caf::actor>(history),
                           caf::actor_cast<caf::actor>(rebalancer_)}};
    scheduler_start_ = now();
    publish_service("scheduler", caf::actor_cast<caf::strong_actor_ptr>(actor));
  }

  void start_host(std::size_t index) {
    const auto name = "expert-" + std::to_string(index);
    const bool has_files = index < num_with_files_;
    expert_host_config config;
    config.expert_memory_bytes = memory_.host_experts * simulated_expert_engine::config{}.expert_bytes;
    std::vector<caf::actor> others;
    if (!has_files) {
      weights_fetcher_config fetcher;
      fetcher.reader = {++num_fetchers_};
      fetcher.fingerprint = model.shape.fingerprint;
      fetcher.numerics_class = model.shape.numerics_class;
      fetcher.directory = directory;
      fetcher.chunk_bytes = 300;
      fetcher.own_thread = false;
      config.weights = weight_origin::peers;
      config.fetcher = root(spawn_weights_fetcher(system, std::move(fetcher)));
      others.push_back(caf::actor_cast<caf::actor>(config.fetcher));
    }
    const auto added = add_host(name, config, has_files);
    weights_sender_config sender_config;
    sender_config.engine = added.engine;
    sender_config.own_thread = false;
    const auto sender = root(spawn_weights_sender(system, std::move(sender_config)));
    publish_service(weights_service(name), caf::actor_cast<caf::strong_actor_ptr>(sender));
    others.push_back(caf::actor_cast<caf::actor>(sender));
    const auto member = add_member(worker_role::expert, caf::actor_cast<caf::strong_actor_ptr>(added.actor));
    auto& entry = hosts_[index];
    if (entry.engine)
      num_fetched_ += entry.engine->fetched();
    entry = {name,
             {caf::actor_cast<caf::actor>(added.actor), caf::actor_cast<caf::actor>(member),
              added.device->executor(), added.loader->executor()},
             added.device,
             added.engine};
    entry.actors.insert(entry.actors.end(), others.begin(), others.end());
  }

  void start_worker(std::size_t index) {
    const auto name = "attention-" + std::to_string(index);
    attention_worker_config config;
    config.max_num_seqs = memory_.max_num_seqs;
    config.max_num_batched_tokens = 24;
    config.max_micro_batches = config.min_micro_batches = 1 + below(3);
    simulated_attention_engine::config engine;
    engine.num_blocks = memory_.num_blocks;
    const auto added = add_worker(name, config, engine);
    const auto member =
        add_member(worker_role::attention, caf::actor_cast<caf::strong_actor_ptr>(added.actor));
    attention_counts_.push_back(added.metrics);
    workers_[index] = {name,
                       {caf::actor_cast<caf::actor>(added.actor), caf::actor_cast<caf::actor>(member),
                        added.device->executor()},
                       added.device};
  }

  void start_gateway() {
    gateway_config config;
    config.address = {{7}, worker_role::gateway, "gateway-0", ""};
    config.directory = directory;
    gateway_ = root(spawn_gateway(system, std::move(config)));
    gateway_member_ = add_member(worker_role::gateway, caf::actor_cast<caf::strong_actor_ptr>(gateway_));
  }

  void TestBody() override {}

  std::mt19937 random_;
  std::uint32_t num_replicas_;
  std::size_t num_with_files_;
  cluster_memory memory_;
  std::uint64_t num_fetchers_ = 0;
  std::uint64_t num_fetched_ = 0; ///< experts, by former hosts
  std::uint64_t num_members_ = 0;
  std::shared_ptr<recording_metrics> metrics_ = std::make_shared<recording_metrics>();
  process scheduler_process_;
  duration scheduler_start_{};
  std::array<process, num_hosts> hosts_;
  std::array<process, num_workers> workers_;
  std::vector<std::shared_ptr<counted_attention>> attention_counts_;
  rebalancer_actor rebalancer_; ///< of the present scheduler
  gateway_actor gateway_;
  member_actor gateway_member_;
  std::deque<client> requests_;
  std::multimap<duration, std::function<void()>> plans_;
};

} // namespace troupe
