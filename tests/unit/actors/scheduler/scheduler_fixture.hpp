// A scheduler among stand-ins for workers and gateways.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/defaults.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {

class scheduler_fixture : public deterministic_system {
 protected:
  struct peer {
    worker_hello hello;
    fake_member_actor member;
    std::shared_ptr<fake_member_log> log = std::make_shared<fake_member_log>();
    lease_renewal load;
    bool renews = true;
    bool confirms = true; ///< its renewals name the newest view; otherwise epoch 0
  };

  /// The answer to an admission, once there is one.
  struct answer {
    bool is_here = false;
    caf::expected<assignment> result{caf::sec::none};
    std::size_t number = 0; ///< counts answers from 1

    std::uint64_t worker() const { return is_here && result ? result->worker.id.value : 0; }

    ec code() const { return is_here && !result ? code_of(result.error()) : ec::none; }
  };

  void start(scheduler_config config = {}) {
    metrics = std::make_shared<recording_metrics>();
    config.metrics = metrics;
    scheduler = root(spawn_scheduler(system, std::move(config)));
    run();
  }

  /// Waits until the scheduler has gathered changes and acted on them, consequences included.
  void settle() { advance(6 * defaults::gather_changes); }

  peer& join(worker_hello hello) {
    auto& added = peers.emplace_back();
    added.hello = std::move(hello);
    added.load.id = added.hello.address.id;
    if (const auto* host = std::get_if<expert_terms>(&added.hello.of_role)) {
      added.log->hosted = host->hosted;
      added.load.of_role = expert_load{};
    }
    added.member = root(system.spawn(fake_member, added.log));
    join_again(added);
    return added;
  }

  void join_again(peer& who) {
    auto hello = who.hello;
    if (auto* host = std::get_if<expert_terms>(&hello.of_role))
      host->hosted = who.log->hosted;
    hello.term = std::max(hello.term, who.log->newest_term());
    caf::anon_send(who.member, caf::connect_atom_v, caf::actor_cast<caf::strong_actor_ptr>(scheduler), hello);
    settle();
  }

  void renew(peer& who) {
    who.load.term = who.log->term();
    who.load.epoch = who.confirms ? who.log->epoch() : 0;
    caf::anon_send(who.member, caf::update_atom_v, caf::actor_cast<caf::strong_actor_ptr>(scheduler),
                   who.load);
    run();
  }

  /// Moves time; the workers renew as real ones do.
  void pass(duration time) {
    const auto end = now() + time;
    while (now() < end) {
      advance(std::min<duration>(defaults::lease_interval, end - now()));
      for (auto& who : peers)
        if (who.renews)
          renew(who);
    }
    settle();
  }

  /// Ends like a process.
  void die(peer& who) {
    who.renews = false;
    kill(who.member);
    settle();
  }

  /// Requests places for any number of requests, and stays.
  caf::actor add_gateway() {
    return root(system.spawn([this](caf::event_based_actor* self) -> caf::behavior {
      return {[this, self](std::uint64_t slot, const admission_request& request) {
        const auto answered = [this, slot](caf::expected<assignment> result) {
          answers[slot].result = std::move(result);
          answers[slot].is_here = true;
          answers[slot].number = ++num_answers;
        };
        self->request(caf::actor_cast<caf::actor>(scheduler), std::chrono::seconds{200}, request)
            .then([answered](assignment& place) { answered(std::move(place)); },
                  [answered](caf::error& error) { answered(std::move(error)); });
      }};
    }));
  }

  answer& admit(const admission_request& request, const caf::actor& gateway) {
    const auto slot = answers.size();
    auto& result = answers.emplace_back();
    caf::anon_send(gateway, std::uint64_t{slot}, request);
    run();
    return result;
  }

  /// From a separate gateway.
  answer& admit(const admission_request& request) { return admit(request, add_gateway()); }

  void done(std::uint64_t id) {
    caf::anon_send(scheduler, done_atom_v, request_id{id});
    run();
  }

  scheduler_status status() { return *ask<scheduler_status>(scheduler, status_atom_v); }

  /// One attention worker and N expert workers, all loaded.
  void start_ready(std::size_t num_experts = 2, scheduler_config config = {}) {
    start(std::move(config));
    join(attention_hello(1));
    for (std::size_t index = 0; index < num_experts; ++index)
      join(expert_hello(11 + index));
    ASSERT_TRUE(peers.front().log->is_ready());
  }

  scheduler_actor scheduler;
  std::shared_ptr<recording_metrics> metrics;
  std::deque<peer> peers;
  std::deque<answer> answers;
  std::size_t num_answers = 0;
};

} // namespace troupe
