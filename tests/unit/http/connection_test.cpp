// What clients do wrong, or do rarely: the protocol's edge.
#include <regex>
#include <stdexcept>

#include "services/metrics/http_date.hpp"
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using std::chrono::milliseconds;

class connection_test : public http_server_test {};

} // namespace

TEST_F(connection_test, malformed_requests_are_refused) {
  serve();
  const char* bad[] = {
      "GARBAGE\r\n\r\n",
      "GET /health\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
      "GET /health HTTP/1.1\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET /health HTTP/9.9\r\nHost: a\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
      "POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
  };
  for (const char* bytes : bad) {
    raw_client client{port};
    client.send(bytes);
    const raw_response response = client.read();
    EXPECT_EQ(response.status, 400) << bytes << response.body;
    EXPECT_EQ(response.headers.count("x-request-id"), 1U) << bytes;
    EXPECT_TRUE(client.ends()) << bytes;
  }
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(connection_test, unknown_codings_and_expectations_are_refused) {
  serve();
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n").status,
            501);
  EXPECT_EQ(
      tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nContent-Length: 2\r\n\r\n").status,
      417);
}

TEST_F(connection_test, a_target_may_be_in_absolute_form) {
  serve();
  for (const char* target : {"http://a/health", "HTTP://a:8000/health?x=1", "https://user@[::1]:8000/health"})
    EXPECT_EQ(tell("GET " + std::string(target) + " HTTP/1.1\r\nHost: b\r\n\r\n").status, 200) << target;
  for (const char* target : {"http:///health", "http://a", "http://a?x", "ftp://a/health", "http:/health"})
    EXPECT_EQ(tell("GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n").status, 404) << target;
}

TEST_F(connection_test, options_of_the_server_as_a_whole_are_told) {
  serve();
  const raw_response response = tell("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.headers.at("allow"), "GET, HEAD, POST, OPTIONS");
}

TEST_F(connection_test, every_answer_has_its_date) {
  serve();
  const std::string form = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT";
  for (const raw_response& response : {get("/health"), get("/none"), post("/v1/completions", "{"),
                                       post("/v1/completions", R"({"prompt":"a","stream":true})")})
    EXPECT_TRUE(std::regex_match(response.headers.at("date"), std::regex(form)))
        << response.headers.at("date");
  EXPECT_EQ(metrics::http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(metrics::http_date(1709164800), "Thu, 29 Feb 2024 00:00:00 GMT");
}

TEST_F(connection_test, a_host_may_be_an_ipv6_address_in_brackets) {
  config.host = "[::1]";
  try {
    serve();
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()), "http: cannot listen on [::1]:0: Cannot assign requested address");
    GTEST_SKIP() << "this host has no IPv6";
  }
  EXPECT_NE(port, 0);
}

TEST_F(connection_test, bad_json_and_bad_utf8_are_400_and_the_connection_stays) {
  serve();
  raw_client client{port};
  for (const std::string body : {"", "{", "nonsense", "{\"prompt\":\"\xFF\"}", "[]", "{\"prompt\":5}"}) {
    client.request("POST", "/v1/completions", body);
    const raw_response response = client.read();
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(error_of(response)["type"], "invalid_request_error") << body;
  }
  client.request("POST", "/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(connection_test, a_header_beyond_the_limit_is_431) {
  config.limits.max_header_bytes = 1024;
  serve();
  EXPECT_EQ(get("/health", "X-Long: " + std::string(2000, 'x') + "\r\n").status, 431);
  EXPECT_EQ(get("/" + std::string(2000, 'x')).status, 431);
}

TEST_F(connection_test, connections_are_kept_and_closed_as_the_client_likes) {
  serve();
  raw_client kept{port};
  for (int i = 0; i < 3; ++i) {
    kept.request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
    EXPECT_TRUE(kept.read().complete);
  }
  kept.request("GET", "/health", {}, "Connection: close\r\n");
  EXPECT_EQ(kept.read().headers.at("connection"), "close");
  EXPECT_TRUE(kept.ends());
}

TEST_F(connection_test, http_1_0_gets_its_stream_until_the_end) {
  serve();
  raw_client old{port};
  old.send(
      "POST /v1/completions HTTP/1.0\r\nContent-Length: 31\r\n\r\n{\"prompt\":\"a\", \"stream\" : true}");
  const raw_response response = old.read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0U);
  ASSERT_FALSE(events_of(response.body).empty());
  EXPECT_EQ(events_of(response.body).back(), "[DONE]");
}

TEST_F(connection_test, pipelined_requests_are_answered_in_order) {
  play = [](fake_job& job) {
    job.say(0, std::string(1, static_cast<char>(job.asked.prompt.back())));
    job.finish(0, finish_reason::length);
  };
  serve();
  raw_client client{port};
  for (const char* prompt : {"a", "b", "c", "d"})
    client.request("POST", "/v1/completions", std::string(R"({"prompt":")") + prompt + "\"}");
  for (const char* prompt : {"a", "b", "c", "d"})
    EXPECT_EQ(json::parse(client.read().body)["choices"][0]["text"], prompt);
}

TEST_F(connection_test, what_is_read_ahead_is_bounded_and_the_end_is_still_seen) {
  config.limits.max_pipelined_bytes = 4096;
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  raw_client client{port};
  client.request("POST", "/v1/completions", R"({"prompt":"a"})");
  ASSERT_NE(backend->job(0), nullptr);
  client.send(std::string(100000, 'x'));
  client.close();
  EXPECT_TRUE(backend->job(0)->wait_cancelled());
}

TEST_F(connection_test, a_vanished_client_cancels_its_sequences) {
  play = [](fake_job& job) {
    job.say(0, "one");
    EXPECT_TRUE(job.wait_cancelled());
  };
  serve();
  for (const char* body : {R"({"prompt":["a","b"]})", R"({"prompt":["a","b"],"stream":true})"}) {
    raw_client client{port};
    client.request("POST", "/v1/completions", body);
    const size_t first = std::string(body).find("stream") == std::string::npos ? 0 : 2;
    ASSERT_NE(backend->job(first + 1), nullptr);
    client.close();
    EXPECT_TRUE(backend->job(first)->wait_cancelled());
    EXPECT_TRUE(backend->job(first + 1)->wait_cancelled());
  }
}

// The end may be read just when the answer is complete and nobody watches for it any more: asio tells it
// once.
TEST_F(connection_test, a_client_that_half_closes_is_let_go_whenever_it_does) {
  config.limits.idle = milliseconds{60000}; // longer than the client's patience
  play = [](fake_job& job) { job.finish(0, finish_reason::length); };
  serve();
  for (int i = 0; i < 300; ++i) {
    raw_client client{port};
    client.request("POST", "/v1/completions", R"({"prompt":"a"})");
    client.half_close();
    client.read();
    ASSERT_TRUE(client.ends()) << "client " << i;
  }
}

TEST_F(connection_test, a_client_that_does_not_read_is_cut) {
  config.limits.write = milliseconds{200};
  config.limits.max_unsent_bytes = 1 << 30;
  config.limits.send_buffer_bytes = 4096;
  play = talk_at_length;
  serve();
  raw_client client{port, 4096};
  client.request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  ASSERT_NE(backend->job(0), nullptr);
  EXPECT_TRUE(backend->job(0)->wait_cancelled());
}

// Each part of it has the write's time, not all of it together.
TEST_F(connection_test, a_whole_answer_may_take_its_reader_longer_than_one_write) {
  config.limits.write = milliseconds{2000};
  config.limits.header = milliseconds{50};
  config.limits.send_buffer_bytes = 128 << 10;
  config.details["long"] = std::string(6 << 20, 'r');
  serve();
  raw_client reader{port, 128 << 10};
  reader.request("GET", "/version");
  // 2.5 s of the server's, told by headers that do not end. The half that is not read meanwhile fits no
  // socket.
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(reader.take(64 << 10)) << i;
    raw_client clock{port};
    clock.send("G");
    ASSERT_TRUE(clock.ends());
  }
  const raw_response whole = reader.read();
  EXPECT_EQ(whole.status, 200);
  ASSERT_TRUE(whole.complete);
  EXPECT_TRUE(json::parse(whole.body)["long"] == config.details["long"]);
  reader.request("HEAD", "/version");
  EXPECT_EQ(reader.read(true).headers.at("content-length"), std::to_string(whole.body.size()));
  reader.request("GET", "/health");
  EXPECT_EQ(reader.read().status, 200);
}

// A stream's chunk may be as long: an echoed prompt, or what came while the client did not read.
TEST_F(connection_test, a_chunk_of_a_stream_may_take_its_reader_longer_than_one_write) {
  config.limits.write = milliseconds{2000};
  config.limits.header = milliseconds{50};
  config.limits.send_buffer_bytes = 128 << 10;
  config.requests.max_model_len = 2 << 20;
  serve();
  raw_client reader{port, 128 << 10};
  std::string escaped;
  for (int i = 0; i < 1 << 20; ++i)
    escaped += "\\u0001"; // six bytes in the answer as well
  reader.request("POST", "/v1/completions",
                 R"({"stream":true,"echo":true,"max_tokens":1,"prompt":")" + escaped + "\"}");
  for (int i = 0; i < 50; ++i) { // as above
    ASSERT_TRUE(reader.take(64 << 10)) << i;
    raw_client clock{port};
    clock.send("G");
    ASSERT_TRUE(clock.ends());
  }
  const raw_response whole = reader.read();
  EXPECT_EQ(whole.status, 200);
  ASSERT_TRUE(whole.complete);
  const auto events = events_of(whole.body);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_TRUE(json::parse(events[0])["choices"][0]["text"] == std::string(1 << 20, '\1') + "h");
  EXPECT_EQ(events[1], "[DONE]");
}

TEST_F(connection_test, a_client_that_leaves_a_whole_answer_is_counted) {
  config.requests.max_model_len = 2 << 20;
  config.limits.send_buffer_bytes = 4096;
  serve();
  {
    raw_client client{port, 4096};
    client.request("POST", "/v1/completions",
                   R"({"echo":true,"prompt":")" + std::string(1 << 20, 'a') + "\"}");
    client.read_until("\r\n\r\n"); // the rest is on its way
  }
  server->stop(milliseconds{10000}); // returns when the connection has ended
  EXPECT_NE(families->text().find("troupe_http_clients_gone_total{how=\"left\"} 1\n"), std::string::npos);
}

TEST_F(connection_test, a_client_that_does_not_take_a_whole_answer_is_counted) {
  config.limits.write = milliseconds{200};
  config.requests.max_model_len = 2 << 20;
  config.limits.send_buffer_bytes = 4096;
  serve();
  raw_client client{port, 4096};
  client.request("POST", "/v1/completions", R"({"echo":true,"prompt":")" + std::string(1 << 20, 'a') + "\"}");
  client.read_until("\r\n\r\n");
  server->stop(milliseconds{10000});
  EXPECT_NE(families->text().find("troupe_http_clients_gone_total{how=\"too_slow\"} 1\n"), std::string::npos);
}

TEST_F(connection_test, tokens_that_wait_for_a_client_are_bounded) {
  config.limits.write = milliseconds{60000};
  config.limits.max_unsent_bytes = 100000;
  config.limits.send_buffer_bytes = 4096;
  play = talk_at_length;
  serve();
  raw_client client{port, 4096};
  client.request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  ASSERT_NE(backend->job(0), nullptr);
  // The write in progress ends when the client reads; then the overflow is seen.
  client.read_until("never");
  EXPECT_TRUE(backend->job(0)->wait_cancelled());
  EXPECT_EQ(metric("troupe_http_clients_gone_total{how=\"too_slow\"}"), 1);
}

TEST_F(connection_test, slow_headers_bodies_and_idlers_are_cut) {
  config.limits.header = milliseconds{100};
  config.limits.body = milliseconds{100};
  config.limits.idle = milliseconds{100};
  serve();
  for (const char* begun : {"", "GET /health HTTP/1.1\r\nHost:",
                            "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{"}) {
    raw_client client{port};
    client.send(begun);
    EXPECT_TRUE(client.ends()) << begun;
  }
}

} // namespace troupe::http_test
