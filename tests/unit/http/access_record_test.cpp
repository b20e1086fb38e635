// The access log's record of each request, written once its answer has ended.
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "services/gateway/http/request_id.hpp"
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

class access_record_test : public http_server_test {
 protected:
  access_record_test() {
    config.access = [this](const http::access_record& record) {
      const std::lock_guard lock{mutex_};
      told_.push_back(record);
      changed_.notify_all();
    };
  }

  ~access_record_test() override { server.reset(); }

  /// Waits for the n-th record, ten seconds at most.
  http::access_record record(std::size_t n) {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, std::chrono::seconds{10}, [&] { return told_.size() > n; }))
      throw std::runtime_error("no such record");
    return told_[n];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<http::access_record> told_;
};

constexpr const char* trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

} // namespace

TEST_F(access_record_test, an_answer_has_its_tokens_times_and_names) {
  serve();
  const auto answer = post("/v1/completions", R"({"prompt":"abc","n":2,"max_tokens":4})",
                           "X-Request-Id: mine\r\ntraceparent: " + std::string(trace) + "\r\n");
  const json usage = json::parse(answer.body)["usage"];
  const auto told = record(0);
  EXPECT_EQ(told.method, "POST");
  EXPECT_EQ(told.path, "/v1/completions");
  EXPECT_EQ(told.status, 200U);
  EXPECT_GT(told.bytes, answer.body.size());
  EXPECT_EQ(told.prompt_tokens, usage["prompt_tokens"].get<std::uint64_t>());
  EXPECT_EQ(told.output_tokens, usage["completion_tokens"].get<std::uint64_t>());
  EXPECT_EQ(told.finish, "length,length");
  EXPECT_EQ(told.request_id, "mine");
  EXPECT_EQ(told.traceparent, trace);
  EXPECT_TRUE(told.client.starts_with("127.0.0.1:")) << told.client;
  ASSERT_TRUE(told.first_token_seconds);
  EXPECT_LE(*told.first_token_seconds, told.total_seconds);
  EXPECT_EQ(told.error, "");
}

TEST_F(access_record_test, the_context_reaches_the_backend) {
  serve();
  post("/v1/completions", R"({"prompt":"abc"})",
       "X-Request-Id: mine\r\ntraceparent: " + std::string(trace) + "\r\n");
  EXPECT_EQ(backend->job(0)->asked.context, (request_context{"mine", trace}));
}

TEST_F(access_record_test, what_is_refused_has_its_reason) {
  play = [](fake_job& job) { job.fail(ec::engine_failed, "the device is lost"); };
  serve();
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"abc"})").status, 500);
  EXPECT_EQ(record(0).status, 500U);
  EXPECT_EQ(record(0).error, "the device is lost");
  EXPECT_EQ(get("/none").status, 404);
  EXPECT_EQ(record(1).status, 404U);
  EXPECT_FALSE(record(1).output_tokens);
  EXPECT_NE(record(1).error.find("/none"), std::string::npos);
  tell("GET / HTTP/9\r\n\r\n");
  EXPECT_EQ(record(2).status, 400U);
}

TEST_F(access_record_test, a_stream_that_fails_is_a_200_with_an_error) {
  play = [](fake_job& job) {
    job.say(0, "ab");
    job.fail(ec::peer_down, "all workers are gone");
  };
  serve();
  post("/v1/completions", R"({"prompt":"abc","stream":true,"max_tokens":9})");
  EXPECT_EQ(record(0).status, 200U);
  EXPECT_EQ(record(0).error, "all workers are gone");
  EXPECT_EQ(record(0).output_tokens, 2U);
}

TEST_F(access_record_test, a_client_that_leaves_is_told_of) {
  play = [](fake_job& job) { job.wait_cancelled(); };
  serve();
  {
    raw_client client{port};
    client.request("POST", "/v1/completions", R"({"prompt":"abc"})");
    backend->job(0);
  }
  EXPECT_EQ(record(0).status, 499U);
  EXPECT_NE(record(0).error.find("left"), std::string::npos);
}

TEST_F(access_record_test, a_connection_too_many_is_told_of) {
  config.limits.max_connections = 1;
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  raw_client first{port};
  first.request("POST", "/v1/completions", R"({"prompt":"a"})");
  ASSERT_NE(backend->job(0), nullptr);
  raw_client second{port};
  EXPECT_EQ(second.read().status, 503);
  EXPECT_EQ(record(0).status, 503U);
  EXPECT_EQ(record(0).error, "too many connections are open, all of them with requests in progress");
}

TEST(traceparent_test, only_valid_ones_are_passed_on) {
  using http::is_valid_traceparent;
  EXPECT_TRUE(is_valid_traceparent(trace));
  EXPECT_TRUE(is_valid_traceparent("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-abcd"));
  for (const char* bad : {"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
                          "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                          "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                          "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                          "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                          "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
                          "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\x1b"})
    EXPECT_FALSE(is_valid_traceparent(bad)) << bad;
}

} // namespace troupe::http_test
