// POST /cluster/trace: its requests, answers and refusals.
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

constexpr auto path = "/cluster/trace";

class trace_page_test : public http_server_test {
 protected:
  void SetUp() override { serve(); }

  /// The requested share of a body, in millionths.
  std::uint32_t share_of(const std::string& body) {
    const raw_response answer = post(path, body);
    EXPECT_EQ(answer.status, 200) << body << answer.body;
    const auto share = backend->traced.empty() ? ~std::uint32_t{0} : backend->traced.back().share_ppm;
    backend->traced.clear();
    return share;
  }

  /// The error of a body that is refused before it reaches the cluster.
  json refusal_of(const std::string& body) {
    const raw_response answer = post(path, body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_TRUE(backend->traced.empty()) << body;
    return error_of(answer);
  }
};

} // namespace

TEST_F(trace_page_test, starts_and_stops) {
  EXPECT_EQ(share_of(R"({"action":"start","sample":0.25})"), 250'000U);
  EXPECT_EQ(share_of(R"({"action":"start","sample":1})"), 1'000'000U);
  EXPECT_EQ(share_of(R"({"action":"start"})"), 10'000U);
  EXPECT_EQ(share_of(R"({"action":"stop"})"), 0U);
}

TEST_F(trace_page_test, says_what_each_process_has_made_of_it) {
  backend->trace_answer = trace_receipt{{{"expert-0", ""}, {"scheduler", "no folder"}}};
  const raw_response answer = post(path, R"({"action":"start"})");
  EXPECT_EQ(answer.body, R"({"processes":[{"name":"expert-0"},{"name":"scheduler","error":"no folder"}]})");
}

TEST_F(trace_page_test, names_what_is_wrong) {
  EXPECT_EQ(refusal_of(R"({})")["param"], "action");
  EXPECT_EQ(refusal_of(R"({"action":"begin"})")["param"], "action");
  EXPECT_EQ(refusal_of(R"({"action":"start","sample":0})")["param"], "sample");
  EXPECT_EQ(refusal_of(R"({"action":"start","sample":1.5})")["param"], "sample");
  EXPECT_EQ(refusal_of(R"({"action":"stop","sample":0.5})")["param"], "sample");
  EXPECT_EQ(refusal_of(R"({"action":"start","dir":"/tmp"})")["param"], "dir");
}

TEST_F(trace_page_test, is_503_while_the_scheduler_is_away) {
  backend->trace_answer = backend_error{ec::not_ready, "the scheduler does not answer"};
  EXPECT_EQ(post(path, R"({"action":"stop"})").status, 503);
}

} // namespace troupe::http_test
