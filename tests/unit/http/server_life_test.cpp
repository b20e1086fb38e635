// Where a server listens, how many it lets in, and how it ends.
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
  serve();
  raw_client first{port};
  first.request("GET", "/health");
  EXPECT_EQ(first.read().status, 200);
  raw_client second{port};
  second.request("GET", "/health");
  EXPECT_EQ(second.read().status, 200);
  raw_client third{port};
  const raw_response refused = third.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused)["code"], "overloaded");
  EXPECT_EQ(refused.headers.at("x-request-id").size(), 32U);
  second.request("GET", "/metrics");
  EXPECT_NE(second.read().body.find("\ntroupe_http_connections 2\n"), std::string::npos);
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
  release.set_value(); // who is told is told before its prompt is ready
  const raw_response refused = late.read();
  stopping.join();
  ASSERT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused)["code"], "shutting_down");
}

TEST_F(server_life_test, draining_cuts_who_does_not_even_take_the_farewell) {
  config.limits.send_buffer_bytes = 4096;
  config.limits.max_unsent_bytes = size_t{1} << 30;
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
    const http_server second{same, backend, std::make_shared<fake_codec>(),
                             std::make_shared<gateway_metrics>(std::make_shared<metrics::registry>())};
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("127.0.0.1:" + std::to_string(port)), std::string::npos) << e.what();
  }
}

} // namespace troupe::http_test
