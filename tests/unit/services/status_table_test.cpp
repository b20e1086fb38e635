// The page /cluster as shown by `troupe status`.
#include "services/troupe/status_table.hpp"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(status_table, shows_workers_load_and_a_summary_of_the_placement) {
  EXPECT_EQ(
      status_table(R"({"ready": true,
    "scheduler": {"reachable": true, "term": 3, "fingerprint": "f", "queued": 2, "assigned": 5},
    "workers": [
      {"name": "attention-0", "role": "attention", "id": "1", "endpoint": "127.0.0.1:4001", "lease_age_ms": 120,
       "load": {"running": 3, "waiting": 1, "kv_tokens_used": 1024, "prefix_queries": 400, "prefix_hits": 150}, "hosted": []},
      {"name": "expert-0", "role": "expert", "id": "2", "endpoint": "[::1]:4002", "lease_age_ms": 7,
       "load": {"running": 0, "waiting": 0, "kv_tokens_used": 0}, "hosted": [[1, 0], [1, 1]]}],
    "placement": {"term": 3, "epoch": 9, "layers": [
      {"layer": 0, "version": 0, "experts": []},
      {"layer": 1, "version": 4, "experts": [["expert-0"], ["expert-0", "expert-1"]]}]}})"),
      "ready; scheduler: term 3, 2 queued, 5 assigned\n"
      "\n"
      "WORKER       ROLE       ENDPOINT         LEASE  RUNNING  WAITING  KV TOKENS  PREFIX HITS  EXPERTS\n"
      "attention-0  attention  127.0.0.1:4001  120 ms        3        1       1024         37 %        -\n"
      "expert-0     expert     [::1]:4002        7 ms        0        0          -            -        2\n"
      "\n"
      "placement: term 3, epoch 9; 2 experts in 1 layer, 3 replicas, all hosted\n"
      "running and waiting: sequences of an attention worker; batches and rows of an expert worker; "
      "requests of a gateway\n"
      "prefix hits: tokens whose keys the worker had, of all that its sequences started with\n");
}

TEST(status_table, says_that_the_scheduler_is_away_and_what_has_no_host) {
  EXPECT_EQ(
      status_table(R"({"ready": false, "scheduler": {"reachable": false, "error": "no answer in time"},
    "workers": [{"name": "gateway-0", "role": "gateway", "id": "3", "endpoint": ""}],
    "placement": {"term": 1, "epoch": 2, "layers": [{"layer": 0, "version": 1, "experts": [[], ["expert-0"]]}]}})"),
      "NOT READY; the scheduler does not answer: no answer in time; this is what the gateway last knew\n"
      "\n"
      "WORKER     ROLE     ENDPOINT        LEASE  RUNNING  WAITING  KV TOKENS  PREFIX HITS  EXPERTS\n"
      "gateway-0  gateway  (this process)      -        -        -          -            -        -\n"
      "\n"
      "placement: term 1, epoch 2; 2 experts in 1 layer, 1 replica, 1 expert without a host\n"
      "running and waiting: sequences of an attention worker; batches and rows of an expert worker; requests "
      "of a gateway\n"
      "prefix hits: tokens whose keys the worker had, of all that its sequences started with\n");
}

TEST(status_table, says_nothing_of_where_experts_live_when_only_a_gateway_answers) {
  const auto table = status_table(R"({"ready": false, "scheduler": {"reachable": false, "error": "no answer"},
    "workers": [{"name": "gateway-0", "role": "gateway", "id": "3", "endpoint": ""}],
    "placement": {"term": 1, "epoch": 2}})");
  EXPECT_NE(table.find("\nplacement: term 1, epoch 2\nrunning and waiting"), std::string::npos) << table;
}

TEST(status_table, shows_no_control_characters) {
  const auto table =
      status_table(R"({"ready": false, "scheduler": {"reachable": false, "error": "a\u001b[2Jb"},
    "workers": [{"name": "gate\u001b[Hway-\u00fc", "role": "gateway\n", "id": "3", "endpoint": ""}],
    "placement": {"term": 1, "epoch": 2}})");
  EXPECT_NE(table.find("the scheduler does not answer: a?[2Jb;"), std::string::npos) << table;
  EXPECT_NE(table.find("\ngate?[Hway-\u00fc  gateway?  (this process)"), std::string::npos) << table;
  EXPECT_EQ(table.find('\x1b'), std::string::npos) << table;
  try {
    status_table("<html>\x1b[2J");
    FAIL() << "it is no page";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "the answer is no cluster page: <html>?[2J");
  }
}

TEST(status_table, refuses_what_is_no_cluster_page) {
  for (const char* page : {"", "[]", "{}", "<html>", R"({"scheduler": {}, "workers": []})"})
    EXPECT_THROW(status_table(page), std::runtime_error) << page;
}

} // namespace
} // namespace troupe
