#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <limits>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "load/commands.hpp"
#include "load/http_client.hpp"
#include "load/prompt_set.hpp"
#include "load/report.hpp"
#include "load/stream_reader.hpp"
#include "services/options/key_file.hpp"
#include "services/options/option_parser.hpp"

namespace troupe::load {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

namespace {

struct run_options {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file;
  std::string model;
  std::string prompts;
  std::string input_len = "8:128";
  std::string output_len = "1:128";
  std::string output;
  uint32_t num_prompts = 100;
  uint32_t vocab_size = 256;
  uint32_t max_concurrency = 1024;
  uint32_t seed = 0;
  uint32_t timeout_seconds = 600;
  double request_rate = std::numeric_limits<double>::infinity();
  double burstiness = 1.0;
  double temperature = 0.0;
  std::vector<std::string> goodput;
};

/// As `vllm bench serve` writes it.
std::string date_of_now() {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

/// "status 401: No API key was sent", as far as the server says why.
std::string refusal_text(const http_answer& answer) {
  std::string text = "status " + std::to_string(answer.status);
  auto body = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer message("/error/message");
  if (body.contains(message) && body[message].is_string()) {
    text += ": " + body[message].get<std::string>();
  }
  return text;
}

/// All requests of a run, on one thread.
class load_run {
 public:
  load_run(run_options options, std::vector<prompt> prompts, std::vector<double> arrivals)
      : options_(std::move(options)),
        server_(server_of(options_)),
        prompts_(std::move(prompts)),
        arrivals_(std::move(arrivals)),
        records_(prompts_.size()),
        freed_(io_) {}

  /// @returns seconds from the first request to the last answer
  double run() {
    start_ = clock::now();
    freed_.expires_at(clock::time_point::max());
    asio::co_spawn(io_, dispatch(), asio::detached);
    io_.run();
    return seconds_since(start_);
  }

  const std::vector<request_record>& records() const { return records_; }

 private:
  static server_url server_of(const run_options& options) {
    server_url server = parse_url(options.url);
    server.api_key = client_api_key(options.api_key_file);
    return server;
  }

  asio::awaitable<void> dispatch() {
    asio::steady_timer timer(io_);
    for (size_t i = 0; i < prompts_.size(); ++i) {
      timer.expires_at(
          start_ + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(arrivals_[i])));
      co_await timer.async_wait(asio::use_awaitable);
      while (in_flight_ >= options_.max_concurrency) {
        boost::system::error_code cancelled;
        co_await freed_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
      }
      ++in_flight_;
      asio::co_spawn(io_, request(i), asio::detached);
    }
  }

  asio::awaitable<void> request(size_t number) {
    const prompt& p = prompts_[number];
    request_record& record = records_[number];
    nlohmann::json body = {{"max_tokens", p.max_tokens},
                           {"temperature", options_.temperature},
                           {"seed", number},
                           {"ignore_eos", true},
                           {"stream", true},
                           {"stream_options", {{"include_usage", true}}}};
    if (!options_.model.empty()) {
      body["model"] = options_.model;
    }
    body["prompt"] = p.tokens.empty() ? nlohmann::json(p.text) : nlohmann::json(p.tokens);
    auto begin = clock::now();
    record.start = std::chrono::duration<double>(begin - start_).count();
    record.queued = record.start - arrivals_[number];
    record.input_tokens = static_cast<unsigned>(p.tokens.size()); // of a text the server says it
    stream_reader stream(record);
    auto on_event = [&](const std::string& data) { stream.take(data, seconds_since(begin)); };
    try {
      auto answer = co_await exchange(server_, "POST", "/v1/completions", body.dump(),
                                      std::chrono::seconds(options_.timeout_seconds), on_event);
      record.ok = answer.status == 200 && stream.done() && record.error.empty();
      if (!record.ok && record.error.empty()) {
        record.error = answer.status == 200 ? "the stream ended early" : refusal_text(answer);
      }
    } catch (const std::exception& error) {
      // Whatever it is, it is this request's alone, and the dispatcher waits for its end.
      record.error = error.what();
    }
    record.latency = seconds_since(begin);
    --in_flight_;
    freed_.cancel();
  }

  run_options options_;
  server_url server_;
  std::vector<prompt> prompts_;
  std::vector<double> arrivals_;
  std::vector<request_record> records_;
  asio::io_context io_{1};
  asio::steady_timer freed_; ///< cancelled whenever a request ends: wakes the dispatcher
  clock::time_point start_;
  uint32_t in_flight_ = 0;
};

} // namespace

int run_command(const std::vector<std::string>& arguments) {
  run_options o;
  option_parser parser("troupe-load run",
                       "Sends completion requests at a rate and reports what users would see.");
  parser.text("url", "URL", "the server", &o.url);
  parser.text(
      "api-key-file", "FILE",
      "send the first key of this file (one a line), where the server wants one; default: OPENAI_API_KEY",
      &o.api_key_file);
  parser.text("model", "NAME", "model name to ask for; default: whatever is served", &o.model);
  parser.text("prompts", "FILE", "JSONL with a \"prompt\" a line; default: random token ids", &o.prompts);
  parser.number("num-prompts", "requests to send", &o.num_prompts, 1, 1U << 24);
  parser.text("random-input-len", "LO:HI", "prompt tokens of random prompts", &o.input_len);
  parser.text("random-output-len", "LO:HI", "answer tokens", &o.output_len);
  parser.number("random-vocab-size", "random ids are below this", &o.vocab_size, 1, 1U << 24);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  parser.real("request-rate", "requests per second; inf or 0: all at once", &o.request_rate, 0, infinity);
  parser.real("burstiness", "1: Poisson arrivals; lower: burstier; higher: more regular; inf: a fixed gap",
              &o.burstiness, 0.01, infinity);
  parser.number("max-concurrency", "requests in flight at most", &o.max_concurrency, 1, 1U << 20);
  parser.real("temperature", "of all requests", &o.temperature, 0, 2);
  parser.number("seed", "the same seed asks the same", &o.seed, 0, ~0U);
  parser.number("timeout", "seconds until a request counts as failed", &o.timeout_seconds, 1, 86400);
  parser.list(
      "goodput", "NAME:MS",
      "report the rate of requests that keep within so many milliseconds of ttft, tpot or e2el, such as "
      "ttft:200; may be given more than once",
      &o.goodput, [](const std::string& entry, const std::string& source) {
        parse_goodput(entry, source);
        return entry;
      });
  parser.text("output", "FILE", "where to write the report as JSON", &o.output);
  if (parser.parse(arguments) == option_parser::outcome::help) {
    return 0;
  }
  std::vector<std::string> texts;
  if (!o.prompts.empty()) {
    texts = read_prompts(o.prompts);
  }
  auto prompts = make_prompts(texts, o.num_prompts, o.seed, parse_range(o.input_len, "--random-input-len"),
                              parse_range(o.output_len, "--random-output-len"), o.vocab_size);
  run_settings settings{date_of_now(), o.model, o.request_rate, o.burstiness, o.max_concurrency, {}};
  if (o.request_rate == 0.0) {
    settings.request_rate = infinity;
  }
  for (const auto& goal : o.goodput) {
    auto [name, milliseconds] = parse_goodput(goal, "--goodput");
    settings.goodput.insert_or_assign(name, milliseconds); // of those named twice the last one counts
  }
  load_run run(o, std::move(prompts), arrival_times(o.num_prompts, o.request_rate, o.burstiness, o.seed));
  double duration = run.run();
  std::cout << report_text(run.records(), duration);
  bool failed = false;
  for (const auto& record : run.records()) {
    if (!record.ok && !std::exchange(failed, true)) {
      std::cerr << "first failure: " << record.error << '\n';
    }
  }
  if (!o.output.empty()) {
    std::ofstream out(o.output);
    out << report_json(settings, run.records(), duration) << '\n';
    out.close();
    if (!out) {
      std::cerr << "troupe-load: cannot write " << o.output << '\n';
      return 1;
    }
  }
  return failed ? 1 : 0;
}

} // namespace troupe::load
