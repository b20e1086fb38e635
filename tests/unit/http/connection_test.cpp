// What clients do wrong, or do rarely: the protocol's edge.
#include <future>
#include <thread>

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using std::chrono::milliseconds;

class connection_test : public http_server_test {
 protected:
  /// Sends these bytes and reads what comes back.
  raw_response tell(const std::string& bytes) const {
    raw_client client{port};
    client.send(bytes);
    return client.read();
  }
};

/// Of a request for tokens, up to further fields.
constexpr const char* large_header = "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2900\r\n";

/// The body that it announces.
std::string large_body() {
  return R"({"prompt":")" + std::string(2887, 'a') + "\"}";
}

/// One of 213 bytes.
const std::string small_body = R"({"prompt":")" + std::string(200, 'a') + "\"}";

/// Says some 13,000 tokens, 2 MB as events, and waits to be cancelled.
void talk_at_length(fake_job& job) {
  for (int i = 0; i < 200; ++i)
    job.say(0, std::string(64, 'x'));
  EXPECT_TRUE(job.wait_cancelled());
}

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

TEST_F(connection_test, a_body_beyond_the_limit_is_413) {
  config.limits.max_body_bytes = 1000;
  serve();
  // Announced: refused before any of it is sent.
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n").status, 413);
  EXPECT_EQ(post("/tokenize", R"({"prompt":")" + std::string(100000, 'a') + "\"}").status, 413);
  // In chunks: as soon as it is too much.
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n"
                 + std::string(1024, 'a') + "\r\n0\r\n\r\n")
                .status,
            413);
  EXPECT_EQ(post("/tokenize", R"({"prompt":"a"})").status, 200);
}

TEST_F(connection_test, bodies_of_all_connections_are_bounded_together) {
  config.limits.max_buffered_body_bytes = 3000;
  serve();
  raw_client holder{port};
  const std::string body = large_body();
  holder.send(large_header + ("\r\n" + body.substr(0, 2899)));
  // Until the holder's bytes have been read others may send theirs. These do not: they would be in its way.
  raw_response refused;
  for (int i = 0; i < 1000 && refused.status != 429; ++i)
    refused =
        tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 200\r\n\r\n");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(post("/tokenize", small_body).status, 429);
  // Chunks: as soon as they are too much.
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nc8\r\n"
                 + std::string(200, 'a') + "\r\n")
                .status,
            429);
  holder.send(body.substr(2899));
  EXPECT_EQ(holder.read().status, 200);
  get("/health"); // one thread does all: it has left the holder's request behind
  EXPECT_EQ(post("/tokenize", small_body).status, 200);
}

TEST_F(connection_test, a_body_that_is_only_announced_keeps_nobody_out) {
  config.limits.max_buffered_body_bytes = 3000;
  serve();
  raw_client holder{port};
  holder.send(large_header + std::string("Expect: 100-continue\r\n\r\n"));
  EXPECT_EQ(holder.read().status, 100); // it may send
  EXPECT_EQ(post("/tokenize", small_body).status, 200);
  get("/health"); // one thread does all: it has left that request behind
  holder.send(large_body());
  EXPECT_EQ(holder.read().status, 200);
}

TEST_F(connection_test, a_large_body_that_nothing_needs_is_413) {
  config.allowed_origins = {"*"};
  serve();
  const std::string large = "Host: a\r\nContent-Length: 16777216\r\n\r\n";
  for (const std::string& request :
       {"GET /health HTTP/1.1\r\n" + large, "GET /v1/models HTTP/1.1\r\n" + large,
        "OPTIONS /tokenize HTTP/1.1\r\nOrigin: b\r\nAccess-Control-Request-Method: POST\r\n" + large,
        "GET /health HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n"
            + std::string(0x10001, 'x') + "\r\n0\r\n\r\n"}) {
    raw_client client{port};
    client.send(request);
    const raw_response response = client.read();
    EXPECT_EQ(response.status, 413) << request.substr(0, 100);
    EXPECT_NE(response.body.find("larger than 65536 bytes"), std::string::npos) << response.body;
    EXPECT_TRUE(client.ends()) << request.substr(0, 100);
  }
  // A small one is read over.
  raw_client client{port};
  for (int i = 0; i < 2; ++i) {
    client.request("GET", "/health", "{}");
    EXPECT_EQ(client.read().status, 200);
  }
}

// Whatever body it came with: one that is read to its end, or one that is not waited for.
TEST_F(connection_test, a_refusal_has_its_headers) {
  config.keys = http::api_keys{std::vector<std::string>{"key"}};
  serve();
  for (const std::string body :
       {"Content-Length: 2\r\n\r\n{}", "Content-Length: 70000\r\n\r\n",
        "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"}) {
    const raw_response wrong = tell("POST /health HTTP/1.1\r\nHost: a\r\n" + body);
    EXPECT_EQ(wrong.status, 405) << body;
    EXPECT_EQ(wrong.headers.count("allow"), 1U) << body;
    EXPECT_EQ(wrong.headers.count("www-authenticate"), 0U) << body;
    const raw_response unknown = tell("POST /tokenize HTTP/1.1\r\nHost: a\r\n" + body);
    EXPECT_EQ(unknown.status, 401) << body;
    EXPECT_EQ(unknown.headers.count("www-authenticate"), 1U) << body;
  }
}

TEST_F(connection_test, chunked_bodies_and_pieces_are_put_together) {
  serve();
  raw_client client{port};
  for (const std::string part :
       {"POST /detoke", "nize HTTP/1.1\r\nHost: a\r\nTransfer-Enco", "ding: chunked\r\n\r\n5\r\n",
        "{\"tok\r\n", "d;x=y\r\nens\":[104,105]", "}\r\n0\r\nTrailer: x\r\n\r\n"})
    ASSERT_TRUE(client.send(part));
  const raw_response response = client.read();
  EXPECT_EQ(response.status, 400) << response.body; // "ens":[104,105]} is one byte longer than it says
  raw_client right{port};
  right.send(
      "POST /detokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"tok\r\n10;x=y\r\n"
      "ens\":[104, 105]}\r\n0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(json::parse(right.read().body)["prompt"], "hi");
}

TEST_F(connection_test, an_endless_chunk_extension_is_refused) {
  serve();
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;"
                 + std::string(400000, 'x'))
                .status,
            400);
}

TEST_F(connection_test, expect_100_continue_is_answered) {
  serve();
  raw_client client{port};
  const std::string body = R"({"prompt":"a"})";
  const std::string header = "POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: "
                             + std::to_string(body.size()) + "\r\n\r\n";
  client.send(header);
  EXPECT_EQ(client.read().status, 100);
  client.send(body);
  EXPECT_EQ(client.read().status, 200);
  // What would be refused anyway is refused without the body.
  raw_client refused{port};
  refused.send("POST /nowhere HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 14\r\n\r\n");
  EXPECT_EQ(refused.read().status, 404);
  EXPECT_TRUE(refused.ends());
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
  config.model_root = std::string(6 << 20, 'r');
  serve();
  raw_client reader{port, 128 << 10};
  reader.request("GET", "/v1/models/tiny");
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
  EXPECT_TRUE(json::parse(whole.body)["root"] == config.model_root);
  reader.request("HEAD", "/v1/models/tiny");
  EXPECT_EQ(reader.read(true).headers.at("content-length"), std::to_string(whole.body.size()));
  reader.request("GET", "/health");
  EXPECT_EQ(reader.read().status, 200);
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

TEST_F(connection_test, listens_where_a_name_says) {
  config.host = "localhost";
  serve();
  EXPECT_EQ(get("/health").status, 200); // clients here know 127.0.0.1
}

TEST_F(connection_test, a_host_that_does_not_exist_is_named) {
  config.host = std::string(64, 'x'); // longer than a part of a name may be: no name server is asked
  try {
    serve();
    FAIL() << "it listens";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()).find("http: cannot listen on " + config.host + ":0: "), 0U) << e.what();
  }
}

TEST_F(connection_test, connections_are_bounded) {
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

TEST_F(connection_test, draining_lets_requests_end_and_takes_no_more) {
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

TEST_F(connection_test, draining_tells_those_whose_answers_do_not_end) {
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

TEST_F(connection_test, draining_tells_those_whose_prompts_are_still_tokenized) {
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

TEST_F(connection_test, draining_cuts_who_does_not_even_take_the_farewell) {
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

TEST_F(connection_test, a_port_in_use_is_named) {
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
