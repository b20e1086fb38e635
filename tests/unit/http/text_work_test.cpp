// One client's text does not block others: prompts that cannot fit, hostile tokenizers, clients that leave.
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "services/gateway/text/tokenizer.hpp"
#include "tests/unit/http/http_server_fixture.hpp"
#include "tests/unit/text/small_tokenizer.hpp"

namespace troupe::http_test {

namespace {

const std::string json_type = "Content-Type: application/json\r\n";

class text_work_test : public http_server_test {
 protected:
  text_work_test() {
    play = [](fake_job& job) { job.finish(0, finish_reason::length); };
  }

  double ended(const std::string& how) const {
    return metric("troupe_text_jobs_ended_total{how=\"" + how + "\"}");
  }

  /// Each check is an answer of the server, so this is no busy loop.
  template <class Condition>
  static void wait_until(Condition&& holds) {
    for (int look = 0; look < 20'000 && !holds(); ++look)
      std::this_thread::yield();
    EXPECT_TRUE(holds());
  }
};

/// Records the tokenized texts, and blocks all of them until it is opened.
struct tokenizer_gate {
  explicit tokenizer_gate(fake_codec& codec) {
    codec.before_encode = [this](std::string_view text) {
      {
        const std::lock_guard lock{guard};
        begun.emplace_back(text.substr(0, 8));
      }
      const std::lock_guard pass{gate};
    };
  }

  std::vector<std::string> texts() {
    const std::lock_guard lock{guard};
    return begun;
  }

  std::mutex gate;
  std::mutex guard;
  std::vector<std::string> begun;
};

std::string completion_of(const std::string& prompt) {
  return R"({"max_tokens":1,"prompt":")" + prompt + "\"}";
}

} // namespace

TEST_F(text_work_test, a_prompt_that_cannot_fit_is_not_tokenized) {
  config.requests.max_model_len = 10;
  codec->longest_token = 5;
  int encoded = 0;
  codec->before_encode = [&](std::string_view) { ++encoded; };
  serve();
  const raw_response refused = post("/v1/completions", completion_of(std::string(46, 'a')));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error_of(refused)["code"], "context_length_exceeded");
  EXPECT_EQ(error_of(refused)["param"], "prompt");
  EXPECT_EQ(
      error_of(refused)["message"],
      "This model's maximum context length is 10 tokens. However, your prompt has at least 10 tokens, which "
      "leaves no room for a new one.");
  const std::string long_message =
      R"({"messages":[{"role":"user","content":")" + std::string(60, 'a') + "\"}]}";
  const raw_response chat = post("/v1/chat/completions", long_message);
  EXPECT_EQ(chat.status, 400);
  EXPECT_EQ(error_of(chat)["code"], "context_length_exceeded");
  EXPECT_EQ(error_of(chat)["param"], "messages");
  EXPECT_EQ(encoded, 0);
}

TEST_F(text_work_test, a_prompt_that_may_fit_is_tokenized) {
  config.requests.max_model_len = 10;
  codec->longest_token = 5;
  serve();
  std::string special; // nine tokens of five bytes
  for (int i = 0; i < 8; ++i)
    special += "<eos>";
  EXPECT_EQ(post("/v1/completions", completion_of(special)).status, 200)
      << "with the one in front it is nine";
  const raw_response late = post("/v1/completions", completion_of(std::string(45, 'a')));
  EXPECT_EQ(error_of(late)["code"], "context_length_exceeded");
  EXPECT_NE(late.body.find("your prompt has 46 tokens"), std::string::npos) << late.body;
  const std::string cut =
      R"({"max_tokens":1,"truncate_prompt_tokens":4,"prompt":")" + std::string(99, 'a') + "\"}";
  EXPECT_EQ(post("/v1/completions", cut).status, 200) << "what is cut may have any length";
  EXPECT_EQ(json::parse(post("/tokenize", R"({"prompt":")" + std::string(99, 'a') + "\"}").body)["count"],
            100)
      << "which has no context";
}

TEST_F(text_work_test, a_hostile_tokenizer_costs_its_own_request) {
  auto hostile = text::small_tokenizer();
  hostile["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:a|aa)+c|.";
  config.text_threads = 2;
  config.limits.text = std::chrono::milliseconds{200};
  served_codec = openai::make_text_codec(text::tokenizer::parse(hostile.dump(), "", "folder"), nullptr);
  serve();
  raw_client slow{port};
  slow.request("POST", "/tokenize", R"({"prompt":")" + std::string(256 << 10, 'a') + "\"}", json_type);
  wait_until([&] { return metric("troupe_text_jobs{state=\"running\"}") >= 1 || ended("timed_out") >= 1; });
  EXPECT_EQ(post("/tokenize", R"({"prompt":"ab"})").status, 200);
  const raw_response refused = slow.read();
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("the text cannot be tokenized"), std::string::npos) << refused.body;
  EXPECT_EQ(ended("done"), 1);
}

TEST_F(text_work_test, clients_that_leave_do_not_delay_others) {
  tokenizer_gate gate{*codec};
  std::unique_lock closed{gate.gate};
  serve();
  raw_client first{port};
  first.request("POST", "/v1/completions", completion_of("first"), json_type);
  wait_until([&] { return !gate.texts().empty(); });
  constexpr int leaving = 15;
  std::vector<std::unique_ptr<raw_client>> clients;
  {
    const std::string body = R"({"prompt":")" + std::string((16 << 20) - 100, 'l') + "\"}";
    for (int i = 0; i < leaving; ++i) {
      clients.push_back(std::make_unique<raw_client>(port));
      clients.back()->request("POST", "/tokenize", body, json_type);
    }
  }
  wait_until([&] { return metric("troupe_text_jobs{state=\"waiting\"}") >= leaving; });
  EXPECT_GT(metric("troupe_text_bytes"), leaving * 16e6);
  clients.clear();
  wait_until([&] { return ended("cancelled") >= leaving; });
  EXPECT_EQ(metric("troupe_text_jobs{state=\"waiting\"}"), 0);
  EXPECT_LT(metric("troupe_text_bytes"), 1e4) << "their room is free again";
  raw_client last{port};
  last.request("POST", "/v1/completions", completion_of("last"), json_type);
  wait_until([&] { return metric("troupe_text_jobs{state=\"waiting\"}") >= 1; });
  closed.unlock();
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(last.read().status, 200);
  EXPECT_EQ(gate.texts(), (std::vector<std::string>{"first", "last"}));
  EXPECT_EQ(metric("troupe_http_clients_gone_total{how=\"left\"}"), leaving);
  EXPECT_EQ(metric("troupe_tokenize_seconds_count"), 2);
}

TEST_F(text_work_test, a_stuck_text_thread_shows_in_health) {
  config.limits.text = config.limits.text_margin = std::chrono::milliseconds{0};
  tokenizer_gate gate{*codec};
  std::unique_lock closed{gate.gate};
  serve();
  EXPECT_EQ(get("/health").body, R"({"status":"ok"})");
  raw_client stuck{port};
  stuck.request("POST", "/v1/completions", completion_of("a"), json_type);
  wait_until([&] { return !gate.texts().empty(); });
  const raw_response sick = get("/health");
  EXPECT_EQ(sick.status, 503);
  EXPECT_EQ(json::parse(sick.body)["status"], "stuck");
  EXPECT_NE(sick.body.find("a request's text has been worked on for"), std::string::npos) << sick.body;
  EXPECT_EQ(get("/ready").status, 200) << "which asks for the cluster";
  closed.unlock();
  EXPECT_EQ(stuck.read().status, 200);
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(text_work_test, texts_that_run_when_the_server_stops_are_refused) {
  tokenizer_gate gate{*codec};
  std::unique_lock closed{gate.gate};
  serve();
  raw_client first{port}, second{port};
  first.request("POST", "/v1/completions", completion_of("a"), json_type);
  wait_until([&] { return !gate.texts().empty(); });
  second.request("POST", "/v1/completions", completion_of("b"), json_type);
  wait_until([&] { return metric("troupe_text_jobs{state=\"waiting\"}") >= 1; });
  std::thread stopping{[&] { server->stop(std::chrono::milliseconds{0}); }};
  const raw_response refused = second.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused)["code"], "shutting_down");
  closed.unlock();
  stopping.join();
}

} // namespace troupe::http_test
