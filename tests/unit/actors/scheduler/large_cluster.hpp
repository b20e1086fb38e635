// A scheduler with any number of modelled workers, under virtual time, for tests and benches. The workers
// join, renew, load ordered experts and confirm messages; they compute nothing. The scheduler's messages are
// counted, in the bytes that remote workers would get, and in those that were encoded.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/binary_serializer.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/member.hpp"
#include "actors/cluster/reconnect_pauses.hpp"
#include "actors/cluster/view_change.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "actors/scheduler/scheduler_storage.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {

class large_cluster : public deterministic_system {
 public:
  struct tally {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;   ///< of CAF's binary form, without frames
    std::uint64_t encoded = 0; ///< of these: a message for many is encoded once
    bool operator==(const tally&) const = default;
  };

  struct shape {
    std::uint32_t num_hosts = 0;
    std::uint32_t num_routers = 0; ///< attention workers
    std::vector<std::uint32_t> layer_experts;
    std::uint64_t max_experts = 0;                  ///< of a host; 0: as many as needed
    duration join_within = std::chrono::seconds{1}; ///< all of them, evenly
    duration load_time = std::chrono::milliseconds{50};
  };

  using worker_actor = member_actor::extend<
      // The oldest open order is loaded.
      caf::reacts_to<caf::update_atom>,
      // The scheduler has died: joins the next one after a pause.
      caf::reacts_to<caf::connect_atom>>;

  /// Starts the scheduler and all workers. They join as time passes.
  void start(shape wanted) {
    chosen = std::move(wanted);
    scheduler_config config;
    config.min_expert_workers = chosen.num_hosts;
    scheduler = root(spawn_scheduler(system, std::move(config)));
    const auto count = chosen.num_hosts + chosen.num_routers;
    for (std::uint32_t number = 0; number < count; ++number) {
      // Attention workers come in between the hosts.
      const auto is_router = std::uint64_t{number} * chosen.num_routers / count
                             != (std::uint64_t{number} + 1) * chosen.num_routers / count;
      add(is_router, chosen.join_within * number / count);
    }
  }

  /// Ends the scheduler, and starts its successor `away` later, which knows its predecessor's publications.
  /// Workers try to reach it with real pauses.
  void restart_scheduler(duration away) {
    const auto before = *ask<scheduler_status>(scheduler, status_atom_v);
    kill(scheduler);
    scheduler = nullptr;
    for (auto* workers : {&hosts, &routers})
      for (const auto& [id, actor] : *workers)
        caf::anon_send(actor, caf::connect_atom_v);
    newest_epoch = 0;
    newest_ready = false;
    num_with_newest = 0;
    advance(away);
    scheduler_storage storage;
    storage.stored = stored_cluster{
        {before.fingerprint, "cpu/float32", "cpu/float32", chosen.layer_experts}, before.experts, {}};
    for (const auto& one : before.workers)
      storage.stored->workers.push_back(one.address);
    scheduler_config config;
    config.term = before.term + 1;
    config.min_expert_workers = chosen.num_hosts;
    scheduler = root(spawn_scheduler(system, std::move(config), std::move(storage)));
  }

  void add(bool is_router, duration join_after) {
    const auto id = ++last_id_;
    auto hello = is_router ? attention_hello(id, chosen.layer_experts) : expert_hello(id, chosen.max_experts);
    auto actor = root(system.spawn(worker, this, std::move(hello), join_after));
    (is_router ? routers : hosts).emplace(id, actor);
  }

  /// Whether all attention workers hold the newest view, which is newer than `epoch` and ready.
  bool is_ready(std::uint64_t epoch = 0) const {
    return newest_ready && newest_epoch > epoch && num_with_newest == routers.size();
  }

  tally total() const {
    tally result;
    for (const auto& [kind, sent] : sent_)
      result = {result.messages + sent.messages, result.bytes + sent.bytes, result.encoded + sent.encoded};
    return result;
  }

  /// Messages sent since the last call, by kind.
  std::map<std::string, tally> take_sent() { return std::exchange(sent_, {}); }

  shape chosen;
  scheduler_actor scheduler;
  std::map<std::uint64_t, worker_actor> hosts;
  std::map<std::uint64_t, worker_actor> routers;
  std::uint64_t newest_epoch = 0; ///< of all views sent
  bool newest_ready = false;
  std::size_t num_with_newest = 0; ///< attention workers
  std::uint64_t num_publications = 0;
  std::uint64_t num_welcomes = 0;
  tally renewals; ///< that workers have sent

  template <class T>
  std::uint64_t size_of(const T& value) {
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    EXPECT_FALSE(sink(const_cast<T&>(value))); // CAF's serializers take references
    return bytes.size();
  }

 private:
  struct worker_state {
    static inline const char* name = "modelled_worker";
    worker_hello hello;
    bool has_joined = false;
    std::optional<reconnect_pauses> pauses; ///< while the scheduler is away
    std::uint64_t term = 0;                 ///< the newest that it has seen
    held_view held;
    std::vector<std::pair<caf::typed_response_promise<host_report>, host_order>> open;
  };

  static worker_actor::behavior_type worker(worker_actor::stateful_pointer<worker_state> self,
                                            large_cluster* cluster, worker_hello hello, duration join_after) {
    self->state.hello = std::move(hello);
    self->delayed_send(self, join_after, caf::tick_atom_v);
    return {
        [self, cluster](const shared_view_change& change) {
          cluster->count_change("view", change);
          cluster->take_change(self->state, *change);
        },
        [self, cluster](const host_order& order) -> caf::result<host_report> {
          cluster->count("order", order);
          auto promise = self->make_response_promise<host_report>();
          self->state.open.emplace_back(promise, order);
          self->delayed_send(self, cluster->chosen.load_time, caf::update_atom_v);
          return promise;
        },
        [cluster](fence_atom) { cluster->count("fence", std::string{}); },
        [](ready_atom) {},
        [self, cluster](caf::tick_atom) {
          self->delayed_send(self, defaults::lease_interval, caf::tick_atom_v);
          if (self->state.pauses)
            return;
          if (std::exchange(self->state.has_joined, true)) {
            lease_renewal load;
            load.id = self->state.hello.address.id;
            load.term = self->state.held.view().experts.term;
            load.epoch = self->state.held.view().experts.epoch;
            ++cluster->renewals.messages;
            cluster->renewals.bytes += cluster->size_of(load);
            self->send(cluster->scheduler, std::move(load));
            return;
          }
          join(self, cluster);
        },
        [](caf::leave_atom) {},
        [self](caf::update_atom) {
          auto [promise, order] = std::move(self->state.open.front());
          self->state.open.erase(self->state.open.begin());
          terms_of<expert_terms>(self->state.hello).hosted = order.experts;
          promise.deliver(host_report{order.term, order.order, std::move(order.experts), {}});
        },
        [self, cluster](caf::connect_atom) {
          auto& state = self->state;
          if (state.pauses && cluster->scheduler) {
            join(self, cluster);
            return;
          }
          if (!state.pauses)
            state.pauses.emplace(state.hello.address.id.value);
          self->delayed_send(self, state.pauses->next(), caf::connect_atom_v);
        },
    };
  }

  static void join(worker_actor::stateful_pointer<worker_state> self, large_cluster* cluster) {
    auto hello = self->state.hello;
    hello.term = self->state.term;
    self->request(cluster->scheduler, std::chrono::seconds{1}, caf::join_atom_v, std::move(hello))
        .then(
            [self, cluster](const worker_welcome& welcome) {
              self->state.pauses.reset();
              self->state.term = welcome.term;
              ++cluster->num_welcomes;
              cluster->count_change("welcome", welcome.view);
              cluster->take_change(self->state, *welcome.view);
            },
            [](const caf::error& error) { ADD_FAILURE() << text_of(error); });
  }

  void take_change(worker_state& state, const view_change& change) {
    if (state.hello.address.role != worker_role::attention)
      return;
    const auto outcome = state.held.take(change, 0);
    EXPECT_NE(outcome, held_view::outcome::misfit) << "nothing is lost on the way";
    if (outcome != held_view::outcome::taken)
      return;
    const auto epoch = change.epoch;
    if (epoch > newest_epoch) {
      newest_epoch = epoch;
      newest_ready = change.ready;
      num_with_newest = 0;
      ++num_publications;
    }
    num_with_newest += epoch == newest_epoch ? 1 : 0;
  }

  template <class T>
  void count(const std::string& kind, const T& value) {
    auto& entry = sent_[kind];
    const auto bytes = size_of(value);
    ++entry.messages;
    entry.bytes += bytes;
    entry.encoded += bytes;
  }

  void count_change(const std::string& kind, const shared_view_change& change) {
    const auto bytes = size_of(change);
    auto& entry = sent_[kind];
    ++entry.messages;
    entry.bytes += bytes;
    // Receivers of one change share it. It is kept so that no other gets its address.
    if (auto& last = last_encoded_[kind]; &*last != &*change) {
      last = change;
      entry.encoded += bytes;
    }
  }

  std::map<std::string, tally> sent_;
  std::map<std::string, shared_view_change> last_encoded_;
  std::uint64_t last_id_ = 0;
};

} // namespace troupe
