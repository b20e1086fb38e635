// A scheduler among as many modelled workers as a test or a bench likes, under virtual time. The workers
// join, renew, load what they are ordered to and confirm what they are sent; they compute nothing. What the
// scheduler sends is counted, in the bytes that a remote worker would get.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <caf/binary_serializer.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/member.hpp"
#include "actors/defaults.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {

class large_cluster : public deterministic_system {
 public:
  struct tally {
    uint64_t messages = 0;
    uint64_t bytes = 0; ///< of CAF's binary form, without frames
    bool operator==(const tally&) const = default;
  };

  struct shape {
    uint32_t num_hosts = 0;
    uint32_t num_routers = 0; ///< attention workers
    std::vector<uint32_t> layer_experts;
    uint64_t max_experts = 0;                       ///< of a host; 0: as many as needed
    duration join_within = std::chrono::seconds{1}; ///< all of them, evenly
    duration load_time = std::chrono::milliseconds{50};
  };

  using worker_actor = member_actor::extend<
      // The oldest open order has been loaded.
      caf::reacts_to<caf::update_atom>>;

  /// Starts the scheduler and all workers. They join as time passes.
  void start(shape wanted) {
    chosen = std::move(wanted);
    scheduler_config config;
    config.min_expert_workers = chosen.num_hosts;
    scheduler = root(spawn_scheduler(system, std::move(config)));
    const auto count = chosen.num_hosts + chosen.num_routers;
    for (uint32_t number = 0; number < count; ++number) {
      // Attention workers come in between the hosts.
      const auto is_router = uint64_t{number} * chosen.num_routers / count
                             != (uint64_t{number} + 1) * chosen.num_routers / count;
      add(is_router, chosen.join_within * number / count);
    }
  }

  void add(bool is_router, duration join_after) {
    const auto id = ++last_id_;
    auto hello = is_router ? attention_hello(id, chosen.layer_experts) : expert_hello(id, chosen.max_experts);
    auto actor = root(system.spawn(worker, this, std::move(hello), join_after));
    (is_router ? routers : hosts).emplace(id, actor);
  }

  /// Do all attention workers hold the newest view, is it newer than `epoch`, and is it a ready one?
  bool is_ready(uint64_t epoch = 0) const {
    return newest_ready && newest_epoch > epoch && num_with_newest == routers.size();
  }

  tally total() const {
    tally result;
    for (const auto& [kind, sent] : sent_)
      result = {result.messages + sent.messages, result.bytes + sent.bytes};
    return result;
  }

  /// What has been sent since the last call, by kind.
  std::map<std::string, tally> take_sent() { return std::exchange(sent_, {}); }

  shape chosen;
  scheduler_actor scheduler;
  std::map<uint64_t, worker_actor> hosts;
  std::map<uint64_t, worker_actor> routers;
  uint64_t newest_epoch = 0; ///< of all views sent
  bool newest_ready = false;
  size_t num_with_newest = 0; ///< attention workers
  uint64_t num_publications = 0;
  tally renewals; ///< that workers have sent

  template <class T>
  uint64_t size_of(const T& value) {
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
    uint64_t term = 0; ///< of the newest view
    uint64_t epoch = 0;
    std::vector<std::pair<caf::typed_response_promise<host_report>, host_order>> open;
  };

  static worker_actor::behavior_type worker(worker_actor::stateful_pointer<worker_state> self,
                                            large_cluster* cluster, worker_hello hello, duration join_after) {
    self->state.hello = std::move(hello);
    self->delayed_send(self, join_after, caf::tick_atom_v);
    return {
        [self, cluster](const cluster_view& view) {
          cluster->count_view("view", view);
          cluster->take_view(self->state, view);
        },
        [self, cluster](const host_order& order) -> caf::result<host_report> {
          cluster->count("order", order);
          auto promise = self->make_response_promise<host_report>();
          self->state.open.emplace_back(promise, order);
          self->delayed_send(self, cluster->chosen.load_time, caf::update_atom_v);
          return promise;
        },
        [cluster](fence_atom) { cluster->count("fence", std::string{}); },
        [self, cluster](caf::tick_atom) {
          self->delayed_send(self, defaults::lease_interval, caf::tick_atom_v);
          if (std::exchange(self->state.has_joined, true)) {
            lease_renewal load;
            load.id = self->state.hello.address.id;
            load.term = self->state.term;
            load.epoch = self->state.epoch;
            ++cluster->renewals.messages;
            cluster->renewals.bytes += cluster->size_of(load);
            self->send(cluster->scheduler, std::move(load));
            return;
          }
          self->request(cluster->scheduler, std::chrono::seconds{1}, caf::join_atom_v, self->state.hello)
              .then(
                  [self, cluster](const worker_welcome& welcome) {
                    cluster->count_view("welcome", welcome.view);
                    cluster->take_view(self->state, welcome.view);
                  },
                  [](const caf::error& error) { ADD_FAILURE() << text_of(error); });
        },
        [](caf::leave_atom) {},
        [self](caf::update_atom) {
          auto [promise, order] = std::move(self->state.open.front());
          self->state.open.erase(self->state.open.begin());
          promise.deliver(host_report{order.term, order.order, std::move(order.experts), {}});
        },
    };
  }

  void take_view(worker_state& state, const cluster_view& view) {
    const auto epoch = view.experts.epoch;
    if (epoch <= state.epoch || state.hello.address.role != worker_role::attention)
      return;
    state.term = view.experts.term;
    state.epoch = epoch;
    if (epoch > newest_epoch) {
      newest_epoch = epoch;
      newest_ready = view.ready;
      num_with_newest = 0;
      ++num_publications;
    }
    num_with_newest += epoch == newest_epoch ? 1 : 0;
  }

  template <class T>
  void count(const std::string& kind, const T& value) {
    auto& entry = sent_[kind];
    ++entry.messages;
    entry.bytes += size_of(value);
  }

  /// The same view is measured once.
  void count_view(const std::string& kind, const cluster_view& view) {
    if (measured_epoch_ != view.experts.epoch || measured_bytes_ == 0) {
      measured_epoch_ = view.experts.epoch;
      measured_bytes_ = size_of(view);
    }
    auto& entry = sent_[kind];
    ++entry.messages;
    entry.bytes += measured_bytes_;
  }

  std::map<std::string, tally> sent_;
  uint64_t measured_epoch_ = 0;
  uint64_t measured_bytes_ = 0;
  uint64_t last_id_ = 0;
};

} // namespace troupe
