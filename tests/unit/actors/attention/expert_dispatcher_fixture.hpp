// An attention worker, and expert hosts whose behaviour the test determines.
#pragma once

#include "actors/attention/expert_dispatcher.hpp"
#include "actors/protocol/defaults.hpp"
#include "tests/unit/actors/serving_system.hpp"

namespace troupe {

/// An expert host that handles a batch as the test says.
inline expert_host_actor::behavior_type
puppet(expert_host_actor::pointer self,
       std::function<caf::result<expert_result>(expert_host_actor::pointer, const expert_batch&)> answer) {
  return {[self, answer = std::move(answer)](const expert_batch& batch) { return answer(self, batch); },
          [](const host_order& order) {
            return host_report{order.term, order.order, {}, {}};
          },
          [](caf::join_atom) { return worker_hello{}; },
          [](load_atom) { return lease_renewal{}; },
          [](const cluster_view&) {},
          [](status_atom) { return expert_host_status{}; }};
}

class expert_dispatcher_test : public serving_system {
 public:
  void submit_expecting(const generation_request& request) {
    wanted[request.id] = expected(request);
    submit(attention, client, request);
  }

  /// Requests of different lengths that are under way when this returns.
  void start_requests(std::uint64_t count = 6, std::uint64_t first = 1) {
    for (std::uint64_t number = first; number < first + count; ++number)
      submit_expecting(make_request(number, static_cast<std::uint32_t>(3 + number * 5 % 17), 24));
    ASSERT_TRUE(run_until([&] { return tokens_of(first) >= 3; }));
  }

  /// The outcome of request `number`.
  outcome& of(std::uint64_t number) { return results[sequence_id{{number}, 0}]; }

  std::size_t tokens_of(std::uint64_t number) { return of(number).output.tokens.size(); }

  void finish_all() {
    ASSERT_TRUE(run_until([&] { return all_finished(results, wanted.size()); }, std::chrono::seconds{200}));
    for (const auto& [id, output] : wanted) {
      EXPECT_EQ(results[id].failure, ec::none) << results[id].failure_text;
      EXPECT_EQ(results[id].output, output) << "request " << id.request.value;
    }
    EXPECT_EQ(status_of(attention).kv_blocks_used, 0U);
  }

  /// Two hosts with every expert, and a worker.
  void start_replicated() {
    one = add_host("expert-0");
    two = add_host("expert-1");
    load(one, all_experts());
    load(two, all_experts());
    start_worker();
    publish(attention, one, two);
  }

  /// `one`, which accepts batches and never answers.
  void add_mute_host() {
    one.address = {{77}, worker_role::expert, "mute", ""};
    one.actor = root(system.spawn(puppet, [this](expert_host_actor::pointer self, const expert_batch&) {
      ++mute_batches;
      return caf::result<expert_result>{self->make_response_promise<expert_result>()};
    }));
    members.push_back(one.address);
    caf::anon_send(directory, caf::publish_atom_v, one.address.name,
                   caf::actor_cast<caf::strong_actor_ptr>(one.actor));
  }

  void start_worker(attention_worker_config config = {}) {
    attention = add_worker("attention-0", config);
    client = add_client(results);
  }

  host one;
  host two;
  std::size_t mute_batches = 0;
  worker attention;
  outcomes results;
  std::map<sequence_id, hash_model_output> wanted;
  token_receiver_actor client;
};

} // namespace troupe
