// Everything except generation: pages, probes, routing, keys.
#include <filesystem>
#include <fstream>

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

class pages_test : public http_server_test {};

} // namespace

TEST_F(pages_test, health_ready_and_version) {
  config.details = {{"isa", "avx2"}};
  serve();
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/ready").status, 200);
  EXPECT_EQ(json::parse(get("/version").body), json::parse(R"({"version":"1.2.3","isa":"avx2"})"));
}

TEST_F(pages_test, a_gateway_is_ready_once_it_has_seen_the_cluster_ready_and_tells_what_the_cluster_is) {
  serve();
  backend->ready = false;
  backend->has_been_ready = false;
  for (const char* path : {"/ready", "/cluster/ready"}) {
    const raw_response waiting = get(path);
    EXPECT_EQ(waiting.status, 503) << path;
    EXPECT_EQ(waiting.headers.at("retry-after"), "1");
    EXPECT_EQ(json::parse(waiting.body)["reason"],
              "not every expert has a host and an attention worker to use it");
  }
  backend->ready = true;
  backend->has_been_ready = true;
  EXPECT_EQ(get("/ready").status, 200);
  EXPECT_EQ(get("/cluster/ready").status, 200);
  backend->scheduler_away = true;
  EXPECT_EQ(get("/ready").status, 200) << "requests wait here, and are told when to come again";
  const raw_response alone = get("/cluster/ready");
  EXPECT_EQ(alone.status, 503);
  EXPECT_EQ(json::parse(alone.body)["reason"], "the scheduler is away");
  backend->scheduler_away = false;
  backend->ready = false;
  EXPECT_EQ(get("/ready").status, 200);
  EXPECT_EQ(get("/cluster/ready").status, 503);
}

TEST_F(pages_test, models_are_listed_and_found_by_name) {
  serve();
  const json list = json::parse(get("/v1/models").body);
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "tiny");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["max_model_len"], 4096);
  EXPECT_EQ(json::parse(get("/v1/models/tiny").body)["id"], "tiny");
  EXPECT_EQ(json::parse(get("/v1/models/org/other").body)["id"], "org/other");
  EXPECT_EQ(json::parse(get("/v1/models/org%2Fother?x=1").body)["id"], "org/other");
  const raw_response unknown = get("/v1/models/none");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(error_of(unknown)["code"], "model_not_found");
  EXPECT_EQ(get("/v1/models/%zz").status, 404);
}

TEST_F(pages_test, the_context_is_what_the_workers_hold) {
  serve();
  const auto context = [this] {
    return std::pair{json::parse(get("/v1/models").body)["data"][0]["max_model_len"].get<int>(),
                     json::parse(post("/tokenize", R"({"prompt":"a"})").body)["max_model_len"].get<int>()};
  };
  EXPECT_EQ(context(), std::pair(4096, 4096)) << "the model's, until a worker has joined";
  backend->longest_context = 300;
  EXPECT_EQ(context(), std::pair(300, 300));
  backend->longest_context = 100'000;
  EXPECT_EQ(context(), std::pair(4096, 4096));
}

TEST_F(pages_test, an_unknown_model_is_a_404_everywhere) {
  serve();
  for (const char* path : {"/v1/completions", "/tokenize"}) {
    const raw_response response = post(path, R"({"model":"gpt-4","prompt":"a"})");
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_EQ(error_of(response)["code"], "model_not_found");
    EXPECT_EQ(error_of(response)["param"], "model");
  }
}

TEST_F(pages_test, tokenize_and_detokenize) {
  serve();
  EXPECT_EQ(json::parse(post("/tokenize", R"({"prompt":"hi","return_token_strs":true})").body),
            json::parse(R"({"count":3,"max_model_len":4096,"tokens":[257,104,105],
                            "token_strs":["<bos>","byte104","byte105"]})"));
  EXPECT_EQ(json::parse(post("/tokenize", R"({"messages":[{"role":"user","content":"hi"}]})").body)["count"],
            34); // the fake template's output, a token per byte: the messages' JSON is 32 long, "A:" 2
  EXPECT_EQ(json::parse(post("/detokenize", R"({"tokens":[104,105,256]})").body)["prompt"], "hi<eos>");
}

TEST_F(pages_test, cluster_shows_workers_and_placement) {
  serve();
  const json page = json::parse(get("/cluster").body);
  EXPECT_EQ(page["scheduler"]["term"], 3);
  EXPECT_EQ(page["workers"][0]["name"], "expert-0");
  EXPECT_EQ(page["workers"][0]["role"], "expert");
  EXPECT_EQ(page["workers"][0]["hosted"], json::parse("[[0,0],[0,1]]"));
  EXPECT_EQ(page["placement"]["layers"][0]["experts"],
            json::parse(R"([["expert-0"],["expert-0","0000000000000008"]])"));
  backend->scheduler_away = true;
  const json remembered = json::parse(get("/cluster").body);
  EXPECT_EQ(remembered["ready"], false);
  EXPECT_EQ(remembered["scheduler"]["reachable"], false);
  EXPECT_EQ(remembered["scheduler"]["error"], "the scheduler is away");
  EXPECT_EQ(remembered["workers"][0]["name"], "expert-0");
  EXPECT_EQ(remembered["placement"], json::parse(R"({"term":0,"epoch":0})")) << "layers are not remembered";
}

TEST_F(pages_test, history_shows_what_is_remembered) {
  serve();
  const raw_response answer = get("/cluster/history?windows=2");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body), json::parse(R"({
    "format": "troupe-history 1", "fingerprint": "model", "layer_experts": [2, 0], "half_life_ms": 600000,
    "age_ms": 10000, "tokens": 5, "rows": 10, "decayed": [[1.5, 0.1], []], "windows": [
      {"worker": "0000000000000007", "sequence": 1, "at_ms": 5000, "duration_ms": 5000, "tokens": 1,
       "micro_batches": 1,
       "rows": [[1, 2], []]},
      {"worker": "0000000000000007", "sequence": 2, "at_ms": 10000, "duration_ms": 5000, "tokens": 2,
       "micro_batches": 1,
       "rows": [[1, 4], []]}]})"));
  const auto num_windows = [this](const std::string& query) {
    return json::parse(get("/cluster/history" + query).body)["windows"].size();
  };
  EXPECT_EQ(num_windows(""), 32U);
  EXPECT_EQ(num_windows("/"), 32U);
  EXPECT_EQ(num_windows("?windows=0"), 0U);
  EXPECT_EQ(num_windows("?other=1&windows=256&windows=1"), 40U);
  for (const char* wrong : {"?windows=", "?windows", "?windows=-1", "?windows=1e2", "?windows=257",
                            "?windows=99999999999", "?windows=2%"}) {
    const raw_response refused = get(std::string("/cluster/history") + wrong);
    EXPECT_EQ(refused.status, 400) << wrong;
    EXPECT_EQ(error_of(refused)["param"], "windows") << wrong;
  }
  backend->scheduler_away = true;
  EXPECT_EQ(get("/cluster/history").status, 503);
  EXPECT_EQ(post("/cluster/history", "{}").status, 405);
}

TEST_F(pages_test, unknown_paths_and_wrong_methods) {
  serve();
  const raw_response unknown = get("/v2/completions");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(error_of(unknown)["code"], "unknown_url");
  const raw_response wrong = get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(post("/health", "{}").headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(ask(port, "PUT", "/cluster/placement", "{}").headers.at("allow"), "GET, HEAD, POST");
  EXPECT_EQ(ask(port, "OPTIONS", "/v1/completions").status, 405);
  EXPECT_EQ(ask(port, "BREW", "/health").status, 405);
}

TEST_F(pages_test, head_has_the_length_and_no_body) {
  serve();
  raw_client client{port};
  client.request("HEAD", "/version");
  const raw_response head = client.read(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(get("/version").body.size()));
  client.request("GET", "/health");
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(pages_test, keys_open_the_api_and_probes_stay_open) {
  const std::string file = testing::TempDir() + "/api_keys_test";
  std::ofstream{file} << "# comment\n\n  first-key \nsecond-key\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  config.keys = http::api_keys::load(file);
  serve();
  const std::string body = R"({"prompt":"a"})";
  const raw_response none = post("/v1/completions", body);
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(error_of(none)["code"], "invalid_api_key");
  for (const char* wrong :
       {"Bearer wrong", "Bearer first-ke", "Bearer first-key2", "Basic first-key", "Bearer"})
    EXPECT_EQ(post("/v1/completions", body, std::string("Authorization: ") + wrong + "\r\n").status, 401)
        << wrong;
  EXPECT_EQ(post("/v1/completions", body, "Authorization: Bearer first-key\r\n").status, 200);
  EXPECT_EQ(get("/v1/models", "authorization: bearer second-key\r\n").status, 200);
  EXPECT_EQ(get("/v1/models").status, 401);
  for (const char* open : {"/health", "/ready", "/cluster/ready"})
    EXPECT_EQ(get(open).status, 200) << open;
}

TEST_F(pages_test, keys_may_come_as_clients_of_azure_send_them) {
  config.keys = http::api_keys{{"the-key"}};
  serve();
  EXPECT_EQ(get("/v1/models", "api-key: the-key\r\n").status, 200);
  EXPECT_EQ(get("/v1/models", "Api-Key: the-key\r\nAuthorization: Bearer other\r\n").status, 200);
  const raw_response wrong = get("/v1/models", "api-key: other\r\n");
  EXPECT_EQ(wrong.status, 401);
  EXPECT_EQ(error_of(wrong)["message"], "The API key is wrong");
  EXPECT_EQ(get("/v1/models", "api-key: Bearer the-key\r\n").status, 401);
  EXPECT_EQ(error_of(get("/v1/models"))["message"],
            "No API key was sent: use 'Authorization: Bearer KEY', 'api-key: KEY' or 'x-api-key: KEY'");
}

TEST_F(pages_test, a_slash_at_the_end_of_a_path_does_not_matter) {
  serve();
  EXPECT_EQ(json::parse(get("/v1/models/").body)["data"][0]["id"], "tiny");
  EXPECT_EQ(json::parse(get("/v1/models/tiny/").body)["id"], "tiny");
  EXPECT_EQ(get("/health/").status, 200);
  EXPECT_EQ(post("/v1/completions/", R"({"prompt":"a"})").status, 200);
  EXPECT_EQ(get("/").status, 404);
  EXPECT_EQ(get("/v1/models//").status, 200);
}

TEST_F(pages_test, a_key_file_that_others_can_read_is_refused) {
  const std::string file = testing::TempDir() + "/api_keys_open_test";
  std::ofstream{file} << "a-key\n";
  std::filesystem::permissions(file, std::filesystem::perms{0640});
  try {
    http::api_keys::load(file);
    FAIL() << "it is taken";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()), "API key file " + file + ": is open to other users; chmod 600 it");
  }
}

TEST_F(pages_test, a_key_file_without_keys_is_refused) {
  const std::string file = testing::TempDir() + "/api_keys_empty_test";
  std::ofstream{file} << "# nothing\n";
  EXPECT_THROW(http::api_keys::load(file), std::runtime_error);
  EXPECT_THROW(http::api_keys::load(file + ".missing"), std::runtime_error);
}

TEST_F(pages_test, request_ids_are_kept_when_sane) {
  serve();
  EXPECT_EQ(get("/health", "X-Request-Id: my-id_1.2:3\r\n").headers.at("x-request-id"), "my-id_1.2:3");
  const std::string drawn = get("/health", "X-Request-Id: <script>\r\n").headers.at("x-request-id");
  EXPECT_EQ(drawn.size(), 32U);
  EXPECT_NE(get("/none").headers.at("x-request-id"), drawn);
}

TEST_F(pages_test, other_content_types_are_refused) {
  serve();
  const std::string body = R"({"prompt":"a"})";
  EXPECT_EQ(post("/v1/completions", body, "Content-Type: text/plain\r\n").status, 415);
  EXPECT_EQ(post("/v1/completions", body, "Content-Type: application/json; charset=utf-8\r\n").status, 200);
}

TEST_F(pages_test, metrics_carry_prefix_and_labels) {
  families = std::make_shared<metrics::registry>("vllm:", metrics::labels{{"model_name", "tiny"}});
  serve();
  post("/v1/completions", R"({"prompt":"a"})");
  const raw_response page = get("/metrics");
  EXPECT_EQ(page.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(page.body.find("\nvllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",le=\"0.001\"}"),
            std::string::npos)
      << page.body;
  EXPECT_NE(page.body.find("\nvllm:request_success_total{model_name=\"tiny\",finished_reason=\"stop\"} 1"),
            std::string::npos)
      << page.body;
  EXPECT_THROW(metrics::registry("1bad"), std::invalid_argument);
}

} // namespace troupe::http_test
