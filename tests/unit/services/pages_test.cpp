// The pages that programs read, byte for byte: what is read is written again as it was.
#include <gtest/gtest.h>

#include "services/pages/cluster_page.hpp"
#include "services/pages/model_page.hpp"
#include "services/pages/placement_page.hpp"

namespace troupe::pages {
namespace {

TEST(pages, a_cluster_with_its_scheduler) {
  const std::string text =
      R"({"ready":true,"scheduler":{"reachable":true,"term":3,"fingerprint":"f","queued":2,"assigned":9223372)"
      R"(036854775808},"workers":[{"name":"expert-0","role":"expert","id":"0000000000000007","endpoint":"127.)"
      R"(0.0.1:1","numerics_class":"avx","lease_age_ms":12,"load":{"running":4,"waiting":5,"kv_tokens_used":6)"
      R"(,"oldest_step_ms":9},"hosted":[[0,0],[2,1]]},{"name":"attü","role":"attention","id":"fedcba987654321)"
      R"(0","endpoint":"","numerics_class":"avx","lease_age_ms":12,"max_num_seqs":8,"kv_capacity_tokens":99,")"
      R"(max_model_len":64,"load":{"running":4,"waiting":5,"kv_tokens_used":6,"prefix_queries":80,"prefix_hit)"
      R"(s":30,"oldest_step_ms":9},"hosted":[])"
      R"(},{"name":"attü","role":"gateway","id":"fedcba9876543210","endpoint":"","numerics_class":"avx","leas)"
      R"(e_age_ms":12,"load":{"running":4,"waiting":5,"kv_tokens_used":6,"oldest_step_ms":9},"hosted":[]}],"p)"
      R"(lacement":{"term":3,"epoch":2,"layers":[{"layer":0,"version":5,"experts":[["expert-0"],["expert-0",")"
      R"(0000000000000008"],[]]},{"layer":1,"version":0,"experts":[]}]}})";
  EXPECT_EQ(encode(decode<cluster_page>(text, "")), text);
}

TEST(pages, a_cluster_without_its_scheduler) {
  const std::string text =
      R"({"ready":true,"scheduler":{"reachable":false,"error":"no answer"},"workers":[{"name":"expert-0","rol)"
      R"(e":"expert","id":"0000000000000007","endpoint":"127.0.0.1:1"}],"placement":{"term":0,"epoch":4}})";
  EXPECT_EQ(encode(decode<cluster_page>(text, "")), text);
}

TEST(pages, a_placement_that_changes_and_one_that_does_not) {
  const std::string quiet =
      R"({"planner":"off","change":null,"last":null,"pins":[],"replicas":[],"drained":[],"imbalance":null,"wa)"
      R"(nted_workers":null})";
  EXPECT_EQ(encode(decode<placement_page>(quiet, "")), quiet);
  const std::string busy =
      R"({"planner":"paused","change":{"id":9,"reason":"imbalance","moves":3,"bytes":77,"moves_done":1,"moves)"
      R"(_given_up":2,"moves_left":3,"elapsed_ms":400,"in_flight":[{"layer":3,"expert":5,"from":["a"],"to":[")"
      R"(a","b"]},{"layer":3,"expert":6,"from":[],"to":["b"]}],"before":{"step_us":1234.567,"busiest_us":1000)"
      R"(.0,"messages":3.5,"max_share":0.75},"after":{"step_us":0.001,"busiest_us":0.002,"messages":3e-06,"ma)"
      R"(x_share":1.0}},"last":{"id":9,"reason":"imbalance","moves":3,"bytes":77,"moves_done":5,"moves_given_)"
      R"(up":0,"moves_left":0,"elapsed_ms":600,"before":{"step_us":1234.567,"busiest_us":1000.0,"messages":3.)"
      R"(5,"max_share":0.75},"after":{"step_us":0.001,"busiest_us":0.002,"messages":3e-06,"max_share":1.0}},")"
      R"(pins":[{"layer":3,"expert":5,"hosts":["a","b"]}],"replicas":[{"layer":1,"expert":2,"replicas":2}],"d)"
      R"(rained":["c"],"imbalance":1.071,"wanted_workers":3})";
  EXPECT_EQ(encode(decode<placement_page>(busy, "")), busy);
}

TEST(pages, a_model_that_loads_and_one_of_which_nothing_is_known) {
  const std::string text =
      R"({"model":"m","loads":true,"weights":"3 tensors","program":{"architecture":"A","layers":2,"dense_layer)"
      R"(s":1,"hidden":8,"vocabulary":9,"context":10,"tied_embeddings":true,"attention":[{"kind":"latent","lay)"
      R"(ers":2,"heads":4,"kv_heads":1,"head_dim":5,"latent_dim":6,"value_dim":7,"sinks":false,"positions":tru)"
      R"(e,"kv_bytes_per_token":11}],"experts":[{"layers":1,"experts":12,"per_token":2,"intermediate":13,"shar)"
      R"(ed_intermediate":0}],"parameters":671026419200,"active_parameters":14,"bfloat16_bytes":1342052838400})"
      R"(,"needs":{"numerics_class":"c","attention_weights":1,"expert_weights":2,"kv_bytes_per_token":3,"kv_ca)"
      R"(che":4,"one_machine":5,"attention_worker":6,"expert_workers":2,"expert_worker":7,"expert_worker_of_fe)"
      R"(wer":8},"end_tokens":[1,2],"tokenizer":"t","ignored":["f"],"unused_tensors":["u"]})";
  EXPECT_EQ(encode(decode<model_page>(text, "")), text);
  const std::string refused =
      R"({"model":"m","loads":false,"error":"e","weights":"none","end_tokens":[],"ignored":[],"unused_tensors":)"
      R"([]})";
  EXPECT_EQ(encode(decode<model_page>(refused, "")), refused);
}

TEST(pages, the_answer_to_a_command) {
  const std::string text =
      R"({"change":9,"dry_run":true,"reason":"imbalance","moves":3,"bytes":77,"before":{"step_us":1234.567,"b)"
      R"(usiest_us":1000.0,"messages":3.5,"max_share":0.75},"after":{"step_us":0.001,"busiest_us":0.002,"mess)"
      R"(ages":3e-06,"max_share":1.0},"experts":[{"layer":3,"expert":5,"from":["a"],"to":["a","b"]},{"layer":)"
      R"(3,"expert":6,"from":[],"to":["b"]}]})";
  EXPECT_EQ(encode(decode<change_page>(text, "")), text);
}

TEST(pages, what_an_earlier_release_leaves_out) {
  const auto page = decode<cluster_page>(
      R"({"ready":true,"scheduler":{},"workers":[{"load":{"running":1}}],"placement":{}})", "");
  EXPECT_FALSE(page.scheduler.reachable);
  ASSERT_EQ(page.workers.size(), 1U);
  EXPECT_EQ(page.workers[0].name, "?");
  EXPECT_EQ(page.workers[0].load->running, 1U);
  EXPECT_FALSE(page.workers[0].load->waiting);
  EXPECT_FALSE(page.workers[0].hosted);
  EXPECT_FALSE(page.placement.layers);
  const auto placement = decode<placement_page>(R"({"planner":"on"})", "");
  EXPECT_FALSE(placement.change);
  EXPECT_TRUE(placement.pins.empty());
}

TEST(pages, other_texts_are_refused_with_their_beginning) {
  try {
    decode<cluster_page>("<html>", "this is no page", 3);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("this is no page: <ht"), 0U) << error.what();
  }
}

TEST(pages, pages_of_another_shape_are_refused) {
  for (const char* text : {"{}", "[]", "7", R"({"pins":[]})", R"({"planner":7})",
                           R"({"planner":"on","pins":{}})", R"({"planner":"on","change":"none"})"})
    EXPECT_THROW(decode<placement_page>(text, ""), std::runtime_error) << text;
}

} // namespace
} // namespace troupe::pages
