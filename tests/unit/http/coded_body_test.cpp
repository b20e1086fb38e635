// Request bodies that clients compress.
#include <stdexcept>

#include <zlib.h>

#include "services/gateway/http/content_coding.hpp"
#include "services/gateway/openai/api_error.hpp"
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using http::content_coding;

/// zlib's codes for the frame of the data.
enum frame : int { gzip = MAX_WBITS + 16, zlib = MAX_WBITS, raw = -MAX_WBITS };

std::string compressed(const std::string& text, frame kind) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kind, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// Status and text of the decoder's exception.
std::string refusal(const std::string& coded, content_coding coding, std::size_t limit = 1 << 20) {
  try {
    http::decode_content(coded, coding, limit);
  } catch (const openai::api_error& e) {
    return std::to_string(e.status) + " " + e.what();
  }
  return "decoded";
}

class coded_body_test : public http_server_test {
 protected:
  raw_response post_coded(const std::string& coding, const std::string& body) const {
    return post("/v1/completions", body, "Content-Encoding: " + coding + "\r\n");
  }
};

constexpr const char* ask_for_a = R"({"prompt":"a"})";

} // namespace

TEST(content_coding, is_read_in_any_case) {
  EXPECT_EQ(http::content_coding_of(""), content_coding::identity);
  EXPECT_EQ(http::content_coding_of("identity"), content_coding::identity);
  EXPECT_EQ(http::content_coding_of(" GZip "), content_coding::gzip);
  EXPECT_EQ(http::content_coding_of("x-gzip"), content_coding::gzip);
  EXPECT_EQ(http::content_coding_of("Deflate"), content_coding::deflate);
  for (const char* other : {"br", "zstd", "gzip, gzip", "gzip;q=1"})
    EXPECT_EQ(http::content_coding_of(other), std::nullopt) << other;
}

TEST(decode_content, undoes_every_frame) {
  const std::string text =
      "{\"prompt\":\"" + std::string(300000, 'x') + "\"}"; // several steps of the decoder
  EXPECT_EQ(http::decode_content(compressed(text, gzip), content_coding::gzip, 1 << 20), text);
  EXPECT_EQ(http::decode_content(compressed(text, zlib), content_coding::deflate, 1 << 20), text);
  EXPECT_EQ(http::decode_content(compressed(text, raw), content_coding::deflate, 1 << 20), text);
  EXPECT_EQ(http::decode_content(compressed("ab", gzip) + compressed("cd", gzip), content_coding::gzip, 4),
            "abcd");
}

TEST(decode_content, stops_at_the_limit) {
  const std::string text(1000, 'x');
  EXPECT_EQ(http::decode_content(compressed(text, gzip), content_coding::gzip, 1000), text);
  EXPECT_EQ(refusal(compressed(text, gzip), content_coding::gzip, 999),
            "413 the request body is larger than 999 bytes once it is decoded");
}

TEST(decode_content, names_what_is_wrong_with_the_data) {
  const std::string whole = compressed(std::string(1000, 'x') + "yz", gzip);
  EXPECT_EQ(refusal(whole.substr(0, whole.size() - 5), content_coding::gzip),
            "400 the request body is not gzip data as Content-Encoding says: its end is missing");
  EXPECT_EQ(refusal(ask_for_a, content_coding::gzip),
            "400 the request body is not gzip data as Content-Encoding says: it is damaged");
  std::string wrong_sum = whole;
  wrong_sum[wrong_sum.size() - 8] = static_cast<char>(wrong_sum[wrong_sum.size() - 8] ^ 1);
  EXPECT_EQ(refusal(wrong_sum, content_coding::gzip),
            "400 the request body is not gzip data as Content-Encoding says: it is damaged");
  EXPECT_EQ(refusal(whole + "more", content_coding::gzip),
            "400 the request body is not gzip data as Content-Encoding says: it is damaged");
  EXPECT_EQ(refusal(compressed("ab", zlib) + "more", content_coding::deflate),
            "400 the request body is not deflate data as Content-Encoding says: bytes follow its end");
}

TEST_F(coded_body_test, compressed_requests_are_answered) {
  serve();
  EXPECT_EQ(post_coded("gzip", compressed(ask_for_a, gzip)).status, 200);
  EXPECT_EQ(post_coded("deflate", compressed(ask_for_a, zlib)).status, 200);
  EXPECT_EQ(post_coded("identity", ask_for_a).status, 200);
  EXPECT_EQ(
      json::parse(post("/tokenize", compressed(R"({"prompt":"hi"})", gzip), "Content-Encoding: gzip\r\n")
                      .body)["count"],
      3);
}

TEST_F(coded_body_test, other_codings_are_refused_with_those_that_are_read) {
  serve();
  for (const char* coding : {"br", "zstd", "gzip, br"}) {
    const raw_response response = post_coded(coding, ask_for_a);
    EXPECT_EQ(response.status, 415) << coding;
    EXPECT_EQ(response.headers.at("accept-encoding"), "gzip, deflate") << coding;
    EXPECT_EQ(error_of(response)["message"],
              "Content-Encoding must be one of gzip, deflate, got '" + std::string(coding) + "'");
  }
  EXPECT_EQ(post("/v1/completions", ask_for_a, "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n").status,
            415);
}

TEST_F(coded_body_test, a_bomb_is_stopped_at_the_limit_and_the_connection_stays) {
  config.limits.max_body_bytes = 1 << 20;
  serve();
  const std::string bomb = compressed(std::string(64 << 20, ' '), gzip);
  ASSERT_LT(bomb.size(), 100000U);
  raw_client client{port};
  client.request("POST", "/v1/completions", bomb, "Content-Encoding: gzip\r\n");
  const raw_response response = client.read();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(error_of(response)["message"],
            "the request body is larger than 1048576 bytes once it is decoded");
  client.request("POST", "/v1/completions", compressed("{", gzip).substr(0, 12),
                 "Content-Encoding: gzip\r\n");
  EXPECT_EQ(client.read().status, 400);
  client.request("POST", "/v1/completions", ask_for_a);
  EXPECT_EQ(client.read().status, 200);
}

// The decoded size counts, not the received one.
TEST_F(coded_body_test, decoded_bodies_count_in_the_room_for_all) {
  config.limits.max_body_bytes = 1 << 20;
  config.limits.max_buffered_body_bytes = 1 << 19;
  serve();
  const std::string spaces(600000, ' ');
  const raw_response response = post_coded("gzip", compressed(spaces + ask_for_a, gzip));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(error_of(response)["message"], "too many large requests are being read");
  EXPECT_EQ(metric("troupe_admission_rejections_total{reason=\"overloaded\"}"), 1);
  EXPECT_EQ(post_coded("gzip", compressed(ask_for_a, gzip)).status, 200);
}

} // namespace troupe::http_test
