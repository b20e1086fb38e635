// An attention worker with one host that has every expert, and a client.
#pragma once

#include "actors/attention/attention_worker.hpp"
#include "actors/protocol/defaults.hpp"
#include "tests/unit/actors/serving_system.hpp"

namespace troupe {

class attention_worker_test : public serving_system {
 public:
  /// One worker and one host with every expert.
  void start(attention_worker_config config = {}, simulated_attention_engine::config settings = {}) {
    one = add_host("expert-0");
    load(one, all_experts());
    attention = add_worker("attention-0", config, settings);
    publish(attention, one);
    client = add_client(results);
  }

  /// Submits, and expects the model's output for the request alone.
  void submit_expecting(const generation_request& request) {
    wanted[request.id] = expected(request);
    submit(attention, client, request);
  }

  void finish_all() {
    ASSERT_TRUE(run_until([&] { return all_finished(results, wanted.size()); })) << results.size();
    for (const auto& [id, output] : wanted) {
      const auto& got = results.at(id);
      EXPECT_EQ(got.failure, ec::none) << got.failure_text;
      EXPECT_EQ(got.output, output) << "request " << id.request.value << " choice " << id.choice;
    }
    const auto status = status_of(attention);
    EXPECT_EQ(status.kv_blocks_used, 0U) << "KV blocks leak";
    EXPECT_EQ(status.running + status.waiting, 0U);
  }

  /// The outcome of request `number`, choice 0.
  outcome& of(std::uint64_t number) { return results[sequence_id{{number}, 0}]; }

  host one;
  worker attention;
  outcomes results;
  std::map<sequence_id, hash_model_output> wanted;
  token_receiver_actor client;
};

} // namespace troupe
