// Where a server listens, how many connections it admits, and how it ends.
#include <future>
#include <thread>

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using std::chrono::milliseconds;

class server_life_test : public http_server_test {};

} // namespace

TEST_F(server_life_test, listens_where_a_name_says) {
  config.host = "localhost";
  serve();
  EXPECT_EQ(get("/health").status, 200); // clients here know 127.0.0.1
}

TEST_F(server_life_test, a_host_that_does_not_exist_is_named) {
  config.host = std::string(64, 'x'); // longer than a part of a name may be: no name server is asked
  try {
    serve();
    FAIL() << "it listens";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()).find("http: cannot listen on " + config.host + ":0: "), 0U) << e.what();
  }
}

TEST_F(server_life_test, connections_are_bounded) {
  config.limits.max_connections = 2;
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  raw_client first{port};
  first.request("POST", "/v1/completions", R"({"prompt":"a"})");
  raw_client second{port};
  second.request("POST", "/v1/completions", R"({"prompt":"a"})");
  ASSERT_NE(backend->job(1), nullptr);
  raw_client third{port};
  const raw_response refused = third.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused)["code"], "overloaded");
  EXPECT_EQ(refused.headers.at("x-request-id").size(), 32U);
  EXPECT_NE(families->text().find("\ntroupe_http_connections 2\n"), std::string::npos);
  EXPECT_NE(families->text().find("http_connections_refused_total{reason=\"all\"} 1\n"), std::string::npos);
}

TEST_F(server_life_test, the_longest_idle_connection_makes_room) {
  config.limits.max_connections = 2;
  serve();
  raw_client first{port};
  first.request("GET", "/health");
  EXPECT_EQ(first.read().status, 200);
  raw_client silent{port};
  silent.send("GET /health HTTP/1.1\r\n"); // no request in progress before its header is complete
  first.request("GET", "/health");
  EXPECT_EQ(first.read().status, 200); // `silent` has been idle for longer now, once it is in
  raw_client third{port};
  third.request("GET", "/health");
  EXPECT_EQ(third.read().status, 200);
  raw_client fourth{port};
  fourth.request("GET", "/health");
  EXPECT_EQ(fourth.read().status, 200);
  EXPECT_TRUE(first.ends());
  EXPECT_TRUE(silent.ends());
  EXPECT_NE(families->text().find("http_idle_connections_closed_total 2\n"), std::string::npos);
}

TEST_F(server_life_test, one_peer_has_so_many_connections) {
  config.limits.max_connections_per_peer = 1;
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  raw_client silent{port};
  raw_client first{port};
  EXPECT_TRUE(silent.ends()) << "who has no request makes room";
  first.request("POST", "/v1/completions", R"({"prompt":"a"})");
  ASSERT_NE(backend->job(0), nullptr);
  raw_client second{port};
  const raw_response refused = second.read();
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(error_of(refused)["message"].get<std::string>().find("--max-connections-per-peer"),
            std::string::npos);
  EXPECT_NE(families->text().find("http_connections_refused_total{reason=\"peer\"} 1\n"), std::string::npos);
}

TEST_F(server_life_test, behind_a_trusted_proxy_requests_are_counted_by_client) {
  config.limits.max_connections_per_peer = 1;
  config.trusted_proxies = address_ranges({"127.0.0.0/8"}, "test");
  play = [](fake_job& job) {
    if (job.asked.prompt.back() == 'h')
      EXPECT_TRUE(job.wait_cancelled());
    else
      fake_backend::say_hello(job);
  };
  serve();
  const std::string body = R"({"prompt":"a"})";
  raw_client held{port};
  held.request("POST", "/v1/completions", R"({"prompt":"h"})", "X-Forwarded-For: 192.0.2.1\r\n");
  ASSERT_NE(backend->job(0), nullptr);
  const raw_response refused = post("/v1/completions", body, "X-Forwarded-For: 198.51.100.9, 192.0.2.1\r\n");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(error_of(refused)["message"],
            "too many requests of 192.0.2.1 are in progress, 1 (--max-connections-per-peer)");
  EXPECT_EQ(post("/v1/completions", body, "X-Forwarded-For: 192.0.2.1, 192.0.2.2\r\n").status, 200);
  EXPECT_EQ(post("/v1/completions", body, "X-Forwarded-For: 192.0.2.3\r\n").status, 200);
  EXPECT_EQ(post("/v1/completions", body).status, 200); // of the proxy itself
  EXPECT_EQ(metric("troupe_http_requests_refused_total{reason=\"client\"}"), 1);
}

TEST_F(server_life_test, a_server_of_loopback_names_refuses_others) {
  config.hosts = http::host_policy({"api.example"});
  serve();
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.9.9.9", "[::1]:8000",
                           "localhost.", "app.localhost:3000", "api.example:443"})
    EXPECT_EQ(tell("GET /health HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n").status, 200) << host;
  for (const char* host :
       {"attacker.example", "localhost.attacker.example", "10.0.0.1", "[::2]", "", ":8000"}) {
    const raw_response refused = tell("GET /health HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
    EXPECT_EQ(refused.status, 403) << host;
    EXPECT_NE(refused.body.find("--allowed-hosts"), std::string::npos) << host;
  }
}

TEST_F(server_life_test, pages_without_a_content_type_are_refused_and_plain_clients_are_not) {
  serve();
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})").status, 200);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})", "Origin: https://a.example\r\n").status, 415);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})",
                 "Origin: https://a.example\r\nContent-Type: application/json\r\n")
                .status,
            200);
}

TEST_F(server_life_test, a_server_that_leaves_serves_on_and_is_not_ready) {
  config.management_port = 0;
  serve();
  EXPECT_EQ(get("/ready").status, 200);
  EXPECT_EQ(ask(server->management_port(), "GET", "/ready").status, 200);
  server->leave();
  for (const std::uint16_t asked : {port, server->management_port()}) {
    const raw_response ready = ask(asked, "GET", "/ready");
    EXPECT_EQ(ready.status, 503);
    EXPECT_EQ(json::parse(ready.body)["reason"], "draining");
    EXPECT_EQ(ask(asked, "GET", "/cluster/ready").status, 200) << "the cluster goes on";
  }
  raw_client client{port};
  client.request("POST", "/v1/completions", R"({"prompt":"a"})");
  const raw_response answer = client.read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client.ends());
  server->stop(milliseconds{0});
  EXPECT_EQ(ask(server->management_port(), "GET", "/ready").status, 503);
}

TEST_F(server_life_test, the_management_port_answers_when_no_connection_is_left) {
  config.management_port = 0;
  config.limits.max_connections = 1;
  config.keys = http::api_keys{{"the-key"}};
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  raw_client busy{port};
  busy.request("POST", "/v1/completions", R"({"prompt":"a"})", "api-key: the-key\r\n");
  ASSERT_NE(backend->job(0), nullptr);
  for (const char* path : {"/health", "/ready", "/cluster/ready", "/metrics", "/version", "/cluster"})
    EXPECT_EQ(ask(server->management_port(), "GET", path).status, 200) << path;
  EXPECT_EQ(ask(server->management_port(), "GET", "/v1/models").status, 404);
  EXPECT_EQ(ask(server->management_port(), "POST", "/health").status, 405);
}

TEST_F(server_life_test, draining_lets_requests_end_and_takes_no_more) {
  std::atomic<bool> go_on{false};
  play = [&go_on](fake_job& job) {
    while (!go_on)
      std::this_thread::yield();
    fake_backend::say_hello(job);
  };
  serve();
  raw_client idle{port};
  idle.request("GET", "/health");
  idle.read();
  raw_client busy{port};
  busy.request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  ASSERT_NE(backend->job(0), nullptr);
  std::thread stopping{[this] { server->stop(milliseconds{10000}); }};
  EXPECT_TRUE(idle.ends());
  go_on = true;
  const raw_response last = busy.read();
  EXPECT_EQ(last.status, 200);
  EXPECT_TRUE(last.complete);
  EXPECT_TRUE(busy.ends());
  stopping.join();
  EXPECT_THROW(raw_client{port}, std::runtime_error);
}

TEST_F(server_life_test, draining_tells_those_whose_answers_do_not_end) {
  play = [](fake_job& job) {
    if (job.asked.prompt.back() == 's')
      job.say(0, "x");
    EXPECT_TRUE(job.wait_cancelled());
  };
  serve();
  raw_client whole{port};
  whole.request("POST", "/v1/completions", R"({"prompt":"w"})");
  raw_client stream{port};
  stream.request("POST", "/v1/completions", R"({"prompt":"s","stream":true})");
  EXPECT_NE(stream.read_until("\"x\"").find("\"x\""), std::string::npos);
  ASSERT_NE(backend->job(1), nullptr);
  server->stop(milliseconds{50});
  const raw_response refused = whole.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused)["code"], "shutting_down");
  EXPECT_TRUE(whole.ends());
  const std::string rest = stream.read_until("\r\n0\r\n\r\n");
  EXPECT_NE(rest.find("\"code\":\"shutting_down\""), std::string::npos) << rest;
  EXPECT_NE(rest.find("data: [DONE]"), std::string::npos) << rest;
  EXPECT_TRUE(stream.ends());
}

TEST_F(server_life_test, draining_tells_those_whose_prompts_are_still_tokenized) {
  std::promise<void> begun;
  std::promise<void> release;
  codec->before_encode = [&begun, go = release.get_future().share()](std::string_view text) {
    if (text == "late") {
      begun.set_value();
      go.wait();
    }
  };
  play = [](fake_job& job) {
    if (job.asked.prompt.back() == 's')
      job.say(0, "x");
    EXPECT_TRUE(job.wait_cancelled());
  };
  serve();
  raw_client stream{port};
  stream.request("POST", "/v1/completions", R"({"prompt":"s","stream":true})");
  stream.read_until("\"x\"");
  raw_client late{port};
  late.request("POST", "/v1/completions", R"({"prompt":"late"})");
  begun.get_future().wait();
  std::thread stopping{[this] { server->stop(milliseconds{50}); }};
  EXPECT_NE(stream.read_until("shutting_down").find("shutting_down"), std::string::npos);
  release.set_value(); // the client is told before its prompt is ready
  const raw_response refused = late.read();
  stopping.join();
  ASSERT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused)["code"], "shutting_down");
}

TEST_F(server_life_test, draining_cuts_who_does_not_even_take_the_farewell) {
  config.limits.send_buffer_bytes = 4096;
  config.limits.max_unsent_bytes = std::size_t{1} << 30;
  play = talk_at_length;
  serve();
  raw_client busy{port, 4096};
  busy.request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  ASSERT_NE(backend->job(0), nullptr);
  server->stop(milliseconds{50});
  EXPECT_TRUE(backend->job(0)->cancelled());
  EXPECT_FALSE(busy.read().complete);
}

TEST_F(server_life_test, a_port_in_use_is_named) {
  serve();
  http_server_config same = config;
  same.port = port;
  try {
    const http_server second{same,
                             http::all_routes(),
                             backend,
                             backend,
                             std::make_shared<fake_codec>(),
                             std::make_shared<gateway_metrics>(std::make_shared<metrics::registry>())};
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("127.0.0.1:" + std::to_string(port)), std::string::npos) << e.what();
  }
}

} // namespace troupe::http_test
