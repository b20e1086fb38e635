// Request bodies: their size, their pieces, and their refusals.
#include <future>

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

/// A header of a request for tokens, up to further fields.
constexpr const char* large_header = "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2900\r\n";

/// The announced body.
std::string large_body() {
  return R"({"prompt":")" + std::string(2887, 'a') + "\"}";
}

/// A body of 213 bytes.
const std::string small_body = R"({"prompt":")" + std::string(200, 'a') + "\"}";

constexpr const char* overloaded = "troupe_admission_rejections_total{reason=\"overloaded\"}";

class body_test : public http_server_test {};

} // namespace

TEST_F(body_test, a_body_beyond_the_limit_is_413) {
  config.limits.max_body_bytes = 1000;
  serve();
  // Announced: refused before any of it is sent.
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n").status, 413);
  EXPECT_EQ(post("/tokenize", R"({"prompt":")" + std::string(100000, 'a') + "\"}").status, 413);
  // In chunks: refused as soon as it is too large.
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n"
                 + std::string(1024, 'a') + "\r\n0\r\n\r\n")
                .status,
            413);
  EXPECT_EQ(post("/tokenize", R"({"prompt":"a"})").status, 200);
}

TEST_F(body_test, bodies_of_all_connections_are_bounded_together) {
  config.limits.max_buffered_body_bytes = 3000;
  serve();
  raw_client holder{port};
  const std::string body = large_body();
  holder.send(large_header + ("\r\n" + body.substr(0, 2899)));
  // Until the holder's bytes have been read others may send theirs. These do not, which would disturb it.
  raw_response refused;
  for (int i = 0; i < 1000 && refused.status != 429; ++i)
    refused =
        tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 200\r\n\r\n");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(error_of(refused)["message"], "too many large requests are being read");
  EXPECT_EQ(metric(overloaded), 1);
  EXPECT_EQ(post("/tokenize", small_body).status, 429);
  EXPECT_EQ(metric(overloaded), 2);
  // Chunks: refused as soon as they are too large.
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nc8\r\n"
                 + std::string(200, 'a') + "\r\n")
                .status,
            429);
  EXPECT_EQ(metric(overloaded), 3);
  holder.send(body.substr(2899));
  EXPECT_EQ(holder.read().status, 200);
  get("/health"); // one thread does all: it has finished the holder's request
  EXPECT_EQ(post("/tokenize", small_body).status, 200);
}

TEST_F(body_test, a_body_that_is_only_announced_keeps_nobody_out) {
  config.limits.max_buffered_body_bytes = 3000;
  serve();
  raw_client holder{port};
  holder.send(large_header + std::string("Expect: 100-continue\r\n\r\n"));
  EXPECT_EQ(holder.read().status, 100); // it may send
  EXPECT_EQ(post("/tokenize", small_body).status, 200);
  get("/health"); // one thread does all: it has finished that request
  holder.send(large_body());
  EXPECT_EQ(holder.read().status, 200);
}

// Bodies in or before the tokenizer are bounded, too.
TEST_F(body_test, bodies_that_are_being_tokenized_are_bounded_together) {
  config.limits.max_background_bytes = 4000;
  std::promise<void> begun;
  std::promise<void> release;
  codec->before_encode = [&, go = release.get_future().share()](std::string_view text) {
    if (text != "held")
      return;
    begun.set_value();
    go.wait();
  };
  serve();
  const std::string held = R"({"prompt":"held"})" + std::string(1500, ' ');
  raw_client holder{port};
  holder.request("POST", "/tokenize", held);
  begun.get_future().wait();
  for (const char* path : {"/tokenize", "/detokenize", "/v1/completions", "/v1/chat/completions"}) {
    raw_client client{port};
    client.request("POST", path, large_body());
    const raw_response refused = client.read();
    EXPECT_EQ(refused.status, 429) << path;
    EXPECT_EQ(refused.headers.at("retry-after"), "1") << path;
    EXPECT_EQ(error_of(refused)["type"], "overloaded_error") << path;
    EXPECT_EQ(error_of(refused)["message"], "requests of 0 MiB are being read already") << path;
    client.request("GET", "/health"); // the connection stays
    EXPECT_EQ(client.read().status, 200) << path;
  }
  EXPECT_EQ(metric(overloaded), 4);
  release.set_value();
  EXPECT_EQ(holder.read().status, 200);
  EXPECT_EQ(post("/tokenize", large_body()).status, 200);
  EXPECT_EQ(post("/tokenize", std::string(10000, ' ') + large_body()).status, 200)
      << "one alone is always taken";
  EXPECT_EQ(metric(overloaded), 4);
}

TEST_F(body_test, a_large_body_that_nothing_needs_is_413) {
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
  // The rest of a small one is read and ignored.
  raw_client client{port};
  for (int i = 0; i < 2; ++i) {
    client.request("GET", "/health", "{}");
    EXPECT_EQ(client.read().status, 200);
  }
}

// With any body: one that is read to its end, or one that is not awaited.
TEST_F(body_test, a_refusal_has_its_headers) {
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

TEST_F(body_test, chunked_bodies_and_pieces_are_put_together) {
  serve();
  raw_client client{port};
  for (const std::string part :
       {"POST /detoke", "nize HTTP/1.1\r\nHost: a\r\nTransfer-Enco", "ding: chunked\r\n\r\n5\r\n",
        "{\"tok\r\n", "d;x=y\r\nens\":[104,105]", "}\r\n0\r\nTrailer: x\r\n\r\n"})
    ASSERT_TRUE(client.send(part));
  const raw_response response = client.read();
  EXPECT_EQ(response.status, 400) << response.body; // "ens":[104,105]} is one byte longer than announced
  raw_client right{port};
  right.send(
      "POST /detokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"tok\r\n10;x=y\r\n"
      "ens\":[104, 105]}\r\n0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(json::parse(right.read().body)["prompt"], "hi");
}

TEST_F(body_test, an_endless_chunk_extension_is_refused) {
  serve();
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;"
                 + std::string(400000, 'x'))
                .status,
            400);
}

TEST_F(body_test, expect_100_continue_is_answered) {
  serve();
  raw_client client{port};
  const std::string body = R"({"prompt":"a"})";
  const std::string header = "POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: "
                             + std::to_string(body.size()) + "\r\n\r\n";
  client.send(header);
  EXPECT_EQ(client.read().status, 100);
  client.send(body);
  EXPECT_EQ(client.read().status, 200);
  // A request that is refused anyway is refused without its body.
  raw_client refused{port};
  refused.send("POST /nowhere HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 14\r\n\r\n");
  EXPECT_EQ(refused.read().status, 404);
  EXPECT_TRUE(refused.ends());
}

} // namespace troupe::http_test
