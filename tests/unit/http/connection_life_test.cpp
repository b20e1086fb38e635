// Keeping, watching and ending connections, with TLS and without.
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using std::chrono::milliseconds;

class connection_life_test : public http_server_test, public testing::WithParamInterface<bool> {
 protected:
  connection_life_test() {
    if (GetParam())
      use_tls();
  }
};

} // namespace

INSTANTIATE_TEST_SUITE_P(plain_and_tls, connection_life_test, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& with_tls) {
                           return with_tls.param ? "tls" : "plain";
                         });

TEST_P(connection_life_test, connections_are_kept_and_closed_as_the_client_likes) {
  serve();
  const auto kept = connect();
  for (int i = 0; i < 3; ++i) {
    kept->request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
    EXPECT_TRUE(kept->read().complete);
  }
  kept->request("GET", "/health", {}, "Connection: close\r\n");
  EXPECT_EQ(kept->read().headers.at("connection"), "close");
  EXPECT_TRUE(kept->ends());
}

TEST_P(connection_life_test, http_1_0_gets_its_stream_until_the_end) {
  serve();
  const auto old = connect();
  old->send(
      "POST /v1/completions HTTP/1.0\r\nContent-Length: 31\r\n\r\n{\"prompt\":\"a\", \"stream\" : true}");
  const raw_response response = old->read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0U);
  ASSERT_FALSE(events_of(response.body).empty());
  EXPECT_EQ(events_of(response.body).back(), "[DONE]");
}

TEST_P(connection_life_test, pipelined_requests_are_answered_in_order) {
  play = [](fake_job& job) {
    job.say(0, std::string(1, static_cast<char>(job.asked.prompt.back())));
    job.finish(0, finish_reason::length);
  };
  serve();
  const auto client = connect();
  for (const char* prompt : {"a", "b", "c", "d"})
    client->request("POST", "/v1/completions", std::string(R"({"prompt":")") + prompt + "\"}");
  for (const char* prompt : {"a", "b", "c", "d"})
    EXPECT_EQ(json::parse(client->read().body)["choices"][0]["text"], prompt);
}

TEST_P(connection_life_test, what_is_read_ahead_is_bounded_and_the_end_is_still_seen) {
  config.limits.max_pipelined_bytes = 4096;
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  const auto client = connect();
  client->request("POST", "/v1/completions", R"({"prompt":"a"})");
  ASSERT_NE(backend->job(0), nullptr);
  client->send(std::string(100000, 'x'));
  client->close();
  EXPECT_TRUE(backend->job(0)->wait_cancelled());
}

TEST_P(connection_life_test, a_vanished_client_cancels_its_sequences) {
  play = [](fake_job& job) {
    job.say(0, "one");
    EXPECT_TRUE(job.wait_cancelled());
  };
  serve();
  for (const char* body : {R"({"prompt":["a","b"]})", R"({"prompt":["a","b"],"stream":true})"}) {
    const auto client = connect();
    client->request("POST", "/v1/completions", body);
    const std::size_t first = std::string(body).find("stream") == std::string::npos ? 0 : 2;
    ASSERT_NE(backend->job(first + 1), nullptr);
    client->close();
    EXPECT_TRUE(backend->job(first)->wait_cancelled());
    EXPECT_TRUE(backend->job(first + 1)->wait_cancelled());
  }
}

// The end may be read just when the answer is complete and is no longer watched for: asio reports it once.
TEST_P(connection_life_test, a_client_that_half_closes_is_let_go_whenever_it_does) {
  config.limits.idle = milliseconds{60000}; // longer than the client's patience
  play = [](fake_job& job) { job.finish(0, finish_reason::length); };
  serve();
  for (int i = 0; i < 300; ++i) {
    const auto client = connect();
    client->request("POST", "/v1/completions", R"({"prompt":"a"})");
    client->half_close();
    client->read();
    ASSERT_TRUE(client->ends()) << "client " << i;
  }
}

TEST_P(connection_life_test, a_client_that_does_not_read_is_cut) {
  config.limits.write = milliseconds{200};
  config.limits.max_unsent_bytes = 1 << 30;
  config.limits.send_buffer_bytes = 4096;
  play = talk_at_length;
  serve();
  const auto client = connect(4096);
  client->request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  ASSERT_NE(backend->job(0), nullptr);
  EXPECT_TRUE(backend->job(0)->wait_cancelled());
}

// Each part of it has the write's time limit, not all of it together.
TEST_P(connection_life_test, a_whole_answer_may_take_its_reader_longer_than_one_write) {
  config.limits.write = milliseconds{2000};
  config.limits.header = milliseconds{500};
  config.limits.send_buffer_bytes = 128 << 10;
  config.details["long"] = std::string(6 << 20, 'r');
  serve();
  const auto reader = connect(128 << 10);
  reader->request("GET", "/version");
  // 2.5 s of the server's clock, given by silent clients. The unread half fits into no socket.
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(reader->take(640 << 10)) << i;
    raw_client clock{port};
    ASSERT_TRUE(clock.ends());
  }
  const raw_response whole = reader->read();
  EXPECT_EQ(whole.status, 200);
  ASSERT_TRUE(whole.complete);
  EXPECT_TRUE(json::parse(whole.body)["long"] == config.details["long"]);
  reader->request("HEAD", "/version");
  EXPECT_EQ(reader->read(true).headers.at("content-length"), std::to_string(whole.body.size()));
  reader->request("GET", "/health");
  EXPECT_EQ(reader->read().status, 200);
}

// A stream's chunk may be as long: an echoed prompt, or what came while the client did not read.
TEST_P(connection_life_test, a_chunk_of_a_stream_may_take_its_reader_longer_than_one_write) {
  config.limits.write = milliseconds{2000};
  config.limits.header = milliseconds{500};
  config.limits.send_buffer_bytes = 128 << 10;
  config.requests.max_model_len = 2 << 20;
  serve();
  std::string escaped; // before the connection begins, which has 500 ms for a header
  for (int i = 0; i < 1 << 20; ++i)
    escaped += "\\u0001"; // six bytes in the answer as well
  const std::string body = R"({"stream":true,"echo":true,"max_tokens":1,"prompt":")" + escaped + "\"}";
  const auto reader = connect(128 << 10);
  reader->request("POST", "/v1/completions", body);
  for (int i = 0; i < 5; ++i) { // as above
    ASSERT_TRUE(reader->take(640 << 10)) << i;
    raw_client clock{port};
    ASSERT_TRUE(clock.ends());
  }
  const raw_response whole = reader->read();
  EXPECT_EQ(whole.status, 200);
  ASSERT_TRUE(whole.complete);
  const auto events = events_of(whole.body);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_TRUE(json::parse(events[0])["choices"][0]["text"] == std::string(1 << 20, '\1') + "h");
  EXPECT_EQ(events[1], "[DONE]");
}

TEST_P(connection_life_test, a_client_that_leaves_a_whole_answer_is_counted) {
  config.requests.max_model_len = 2 << 20;
  config.limits.send_buffer_bytes = 4096;
  serve();
  {
    const auto client = connect(4096);
    client->request("POST", "/v1/completions",
                    R"({"echo":true,"prompt":")" + std::string(1 << 20, 'a') + "\"}");
    client->read_until("\r\n\r\n"); // the rest is on its way
  }
  server->stop(milliseconds{10000}); // returns when the connection has ended
  EXPECT_NE(families->text().find("troupe_http_clients_gone_total{how=\"left\"} 1\n"), std::string::npos);
}

TEST_P(connection_life_test, a_client_that_does_not_take_a_whole_answer_is_counted) {
  config.limits.write = milliseconds{200};
  config.requests.max_model_len = 2 << 20;
  config.limits.send_buffer_bytes = 4096;
  serve();
  const auto client = connect(4096);
  client->request("POST", "/v1/completions",
                  R"({"echo":true,"prompt":")" + std::string(1 << 20, 'a') + "\"}");
  client->read_until("\r\n\r\n");
  server->stop(milliseconds{10000});
  EXPECT_NE(families->text().find("troupe_http_clients_gone_total{how=\"too_slow\"} 1\n"), std::string::npos);
}

TEST_P(connection_life_test, tokens_that_wait_for_a_client_are_bounded) {
  config.limits.write = milliseconds{60000};
  config.limits.max_unsent_bytes = 100000;
  config.limits.send_buffer_bytes = 4096;
  play = talk_at_length;
  serve();
  const auto client = connect(4096);
  client->request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  ASSERT_NE(backend->job(0), nullptr);
  // The write in progress ends when the client reads; then the overflow is noticed.
  client->read_until("never");
  EXPECT_TRUE(backend->job(0)->wait_cancelled());
  EXPECT_EQ(metric("troupe_http_clients_gone_total{how=\"too_slow\"}"), 1);
}

TEST_P(connection_life_test, slow_headers_bodies_and_idlers_are_cut) {
  config.limits.header = milliseconds{100};
  config.limits.body = milliseconds{100};
  config.limits.idle = milliseconds{100};
  serve();
  for (const char* begun : {"", "GET /health HTTP/1.1\r\nHost:",
                            "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{"}) {
    const auto client = connect();
    client->send(begun);
    EXPECT_TRUE(client->ends()) << begun;
  }
}

} // namespace troupe::http_test
