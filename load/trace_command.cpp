#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "load/activation_trace.hpp"
#include "load/commands.hpp"
#include "load/load_run.hpp"
#include "services/client/http_client.hpp"
#include "services/client/server_flags.hpp"
#include "services/client/terminal_text.hpp"
#include "services/options/option_parser.hpp"

namespace troupe::load {

namespace asio = boost::asio;
using std::chrono::duration_cast;

namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint32_t few_windows = 32;           ///< requested unless more are needed
constexpr std::uint32_t all_windows = 256;          ///< the most that a history keeps
constexpr auto patience = std::chrono::seconds(60); ///< longest time without an answer of the history

/// @throws std::runtime_error that says what is wrong with the page
pages::history_page decoded(const std::string& text) {
  try {
    return pages::decode_history(text);
  } catch (const std::runtime_error& flaw) {
    throw std::runtime_error(std::string{"/cluster/history: "} + flaw.what());
  }
}

struct trace_options {
  server_flags server;
  std::string model;
  std::vector<std::string> prompts;
  std::string order = "sequence";
  std::string output_len = "1:128";
  std::string name = "trace";
  std::string output = "trace.jsonl";
  std::uint32_t num_prompts = 500;
  std::uint32_t max_concurrency = 32;
  std::uint32_t seed = 0;
  std::uint32_t timeout_seconds = 600;
  std::uint32_t max_windows = 1U << 16;
  double request_rate = std::numeric_limits<double>::infinity();
  double burstiness = 1.0;
  double temperature = 0.0;
  double duration = 0.0;
  double interval = 2.0;
  double settle = 11.0;
};

/// The requests while windows belong to one domain.
struct phase {
  std::string domain;
  std::vector<prompt> prompts; ///< empty: others send requests
  // Results.
  std::uint64_t windows = 0;
  std::uint64_t tokens = 0;
  std::size_t failed = 0;
  std::string first_failure{};
};

clock::duration seconds(double value) {
  return duration_cast<clock::duration>(std::chrono::duration<double>(value));
}

std::vector<phase> make_phases(const trace_options& o) {
  if (o.prompts.empty()) {
    if (o.duration == 0.0) {
      throw option_error("--prompts or --duration: one of them is needed; with --duration alone what others "
                         "ask is recorded");
    }
    return {{"traffic", {}}};
  }
  const auto output = parse_range(o.output_len, "--random-output-len");
  std::vector<phase> phases;
  for (const auto& d : read_domains(o.prompts))
    phases.push_back({d.name, make_prompts(d.texts, o.num_prompts, o.seed, {1, 1}, output, 1)});
  if (o.order == "sequence")
    return phases;
  std::vector<std::vector<prompt>> lists;
  for (auto& p : phases)
    lists.push_back(std::move(p.prompts));
  return {{"interleaved", interleaved(lists)}};
}

std::string window_text(const trace_options& o, bool has_load) {
  return has_load ? "some seconds of a worker; at most " + std::to_string(o.max_concurrency)
                        + " requests at once of " + o.output_len + " tokens"
                  : "some seconds of a worker";
}

/// The recording: sends the load and reads the history, on one thread.
class trace_run {
 public:
  trace_run(trace_options options, std::vector<phase> phases)
      : options_(std::move(options)), phases_(std::move(phases)), out_(options_.output), timer_(io_) {
    if (!out_)
      throw std::runtime_error("cannot write " + options_.output);
    settings_.server = options_.server.server();
    settings_.model = options_.model;
    settings_.temperature = options_.temperature;
    settings_.max_concurrency = options_.max_concurrency;
    settings_.timeout = std::chrono::seconds(options_.timeout_seconds);
    settings_.duration = options_.duration;
  }

  void run() {
    asio::co_spawn(io_, record(), [this](std::exception_ptr error) { failure_ = std::move(error); });
    io_.run();
    if (failure_)
      std::rethrow_exception(failure_);
    out_.close();
    if (!out_)
      throw std::runtime_error("cannot write " + options_.output);
  }

  const std::vector<phase>& phases() const { return phases_; }

  std::uint64_t missed() const { return recorder_->missed(); }

  bool is_full() const { return windows_ >= options_.max_windows; }

 private:
  asio::awaitable<void> record() {
    start_ = heard_ = clock::now();
    std::optional<pages::history_page> before;
    while (!(before = co_await ask(all_windows)))
      co_await pause(seconds(options_.interval));
    recorder_.emplace(*before);
    for (auto& p : phases_) {
      if (is_full())
        break;
      if (p.prompts.empty())
        co_await watch(p);
      else
        co_await load(p);
    }
  }

  /// Records without sending requests.
  asio::awaitable<void> watch(phase& p) {
    const auto end = clock::now() + seconds(options_.duration);
    while (clock::now() < end && !is_full()) {
      co_await pause(std::min(seconds(options_.interval), end - clock::now()));
      co_await look(p);
    }
  }

  asio::awaitable<void> load(phase& p) {
    load_run asked(io_, settings_, p.prompts,
                   arrival_times(static_cast<std::uint32_t>(p.prompts.size()), options_.request_rate,
                                 options_.burstiness, options_.seed));
    const auto before = recorder_->counted();
    bool is_running = true;
    std::exception_ptr failure;
    asio::co_spawn(io_, asked.run(), [&](std::exception_ptr error) {
      failure = std::move(error);
      is_running = false;
      timer_.cancel();
    });
    while (is_running) {
      co_await pause(seconds(options_.interval));
      try {
        if (!failure)
          co_await look(p);
      } catch (const std::exception&) {
        failure = std::current_exception(); // rethrown once the requests, which use this object, have ended
      }
      if (failure || is_full())
        asked.stop();
    }
    if (failure)
      std::rethrow_exception(failure);
    std::uint64_t computed = 0;
    for (const auto& record : asked.records()) {
      // The last token has no rows: it is only sampled.
      computed += record.ok ? std::uint64_t{record.input_tokens} + record.output_tokens - 1 : 0;
      p.failed += record.ok ? 0 : 1;
      if (!record.ok && p.first_failure.empty())
        p.first_failure = record.error;
    }
    co_await settle(p, before + computed);
  }

  /// Waits until the workers, which report every few seconds, have reported all of `counted`. If the number
  /// differs (other traffic, or prompts computed twice), waits until no report comes.
  asio::awaitable<void> settle(phase& p, std::uint64_t counted) {
    auto quiet_since = clock::now();
    while (!is_full() && recorder_->counted() != counted
           && clock::now() - quiet_since < seconds(options_.settle)) {
      const auto known = recorder_->counted();
      co_await pause(seconds(std::min(options_.interval, 0.5)));
      co_await look(p);
      if (recorder_->counted() != known)
        quiet_since = clock::now();
    }
  }

  /// Writes the new windows.
  asio::awaitable<void> look(phase& p) {
    auto page = co_await ask(wanted_);
    if (page && wanted_ < all_windows && recorder_->is_short(*page)) {
      wanted_ = all_windows;
      page = co_await ask(wanted_);
    }
    if (!page)
      co_return;
    const auto at = std::chrono::duration<double>(clock::now() - start_).count();
    pages::history_page model;
    model.fingerprint = page->fingerprint;
    model.layer_experts = page->layer_experts;
    for (const auto& window : recorder_->take(std::move(*page))) {
      if (is_full())
        break;
      if (windows_++ == 0)
        out_ << trace_header(options_.name, window_text(options_, !p.prompts.empty()), model, about());
      ++p.windows;
      p.tokens += window.tokens;
      out_ << trace_line(window, model.layer_experts, p.domain, at);
    }
    out_.flush();
  }

  nlohmann::ordered_json about() const {
    nlohmann::ordered_json result{{"model", options_.model}, {"order", options_.order}};
    if (!options_.prompts.empty()) {
      result.update({{"max_concurrency", options_.max_concurrency},
                     {"output_len", options_.output_len},
                     {"temperature", options_.temperature},
                     {"seed", options_.seed}});
    }
    return result;
  }

  /// @returns empty if there is no history now: a scheduler may be away for a while
  asio::awaitable<std::optional<pages::history_page>> ask(std::uint32_t windows) {
    std::string trouble;
    bool may_pass = true;
    try {
      const auto answer =
          co_await exchange(settings_.server, "GET", "/cluster/history?windows=" + std::to_string(windows),
                            "", std::chrono::seconds(30));
      if (answer.status == 200) {
        heard_ = clock::now();
        co_return decoded(answer.body);
      }
      trouble = "status " + std::to_string(answer.status) + ": " + excerpt(answer.body, 500);
      may_pass = answer.status == 503;
    } catch (const http_error& error) {
      trouble = error.what();
    }
    if (!may_pass || clock::now() - heard_ > patience)
      throw http_error("/cluster/history: " + trouble);
    co_return std::nullopt;
  }

  /// Ends early when the load has ended.
  asio::awaitable<void> pause(clock::duration length) {
    timer_.expires_after(length);
    boost::system::error_code cancelled;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }

  trace_options options_;
  std::vector<phase> phases_;
  load_settings settings_;
  std::ofstream out_;
  asio::io_context io_{1};
  asio::steady_timer timer_;
  std::exception_ptr failure_;
  std::optional<trace_recorder> recorder_;
  clock::time_point start_;
  clock::time_point heard_; ///< last answer of the history
  std::uint32_t wanted_ = few_windows;
  std::uint64_t windows_ = 0; ///< written
};

/// @returns whether the recording is complete
bool print_summary(const trace_run& run, const trace_options& o) {
  bool is_whole = true;
  for (const auto& p : run.phases()) {
    std::printf("%s: %llu windows, %llu tokens\n", p.domain.c_str(),
                static_cast<unsigned long long>(p.windows), static_cast<unsigned long long>(p.tokens));
    if (p.failed > 0) {
      is_whole = false;
      std::cerr << p.domain << ": " << p.failed << " requests failed, the first one: " << p.first_failure
                << '\n';
    }
  }
  if (run.is_full()) {
    std::cerr << "troupe-load: stopped at " << o.max_windows << " windows (--max-windows)\n";
    is_whole = false;
  } else if (run.missed() > 0) {
    std::cerr << "troupe-load: windows of " << run.missed()
              << " tokens had left the history before it was asked; a shorter --interval loses none\n";
    is_whole = false;
  }
  return is_whole;
}

} // namespace

int trace_command(const std::vector<std::string>& arguments) {
  trace_options o;
  option_parser parser(
      "troupe-load trace",
      "Records which experts a cluster uses, window by window, while prompts of some domains "
      "are asked; load/trace_figures.py draws it.");
  o.server.declare(parser);
  parser.text("model", "NAME", "name of the model to ask for; default: the served model", &o.model);
  parser.list("prompts", "FILE|DIR",
              "a domain: JSONL with one \"prompt\" per line, or a folder of such files; may be repeated; "
              "without it, record other clients' requests for --duration",
              &o.prompts, [](const std::string& entry, const std::string&) { return entry; });
  parser.choice("order", {"sequence", "interleaved"}, "order of the domains: one after another, or in turns",
                &o.order);
  parser.number("num-prompts", "number of requests per domain", &o.num_prompts, 1, 1U << 24);
  parser.real("duration", "stop a domain after X seconds; 0: send all its requests", &o.duration, 0, 1e6);
  parser.text("random-output-len", "LO:HI", "length of answers in tokens", &o.output_len);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  parser.real("request-rate", "requests per second; inf or 0: as --max-concurrency allows", &o.request_rate,
              0, infinity);
  parser.real("burstiness", "1: Poisson arrivals; lower: burstier; higher: more regular; inf: a fixed gap",
              &o.burstiness, 0.01, infinity);
  parser.number("max-concurrency", "maximum number of requests in flight", &o.max_concurrency, 1, 1U << 20);
  parser.real("temperature", "sampling temperature of all requests", &o.temperature, 0, 2);
  parser.number("seed", "seed of prompts and arrival times", &o.seed, 0, ~0U);
  parser.number("timeout", "seconds until a request counts as failed", &o.timeout_seconds, 1, 86400);
  parser.real("interval", "seconds between readings of the history", &o.interval, 0.05, 600);
  parser.real("settle", "a domain's windows are complete after X seconds without a new one", &o.settle, 0,
              3600);
  parser.number("max-windows", "maximum number of windows to record", &o.max_windows, 1, 1U << 24);
  parser.text("name", "NAME", "name of the trace", &o.name);
  parser.text("output", "FILE", "file to write the trace to", &o.output);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  trace_run run(o, make_phases(o));
  run.run();
  const auto is_whole = print_summary(run, o);
  if (std::all_of(run.phases().begin(), run.phases().end(), [](const auto& p) { return p.windows == 0; }))
    throw std::runtime_error("nothing was counted: no tokens passed through experts");
  return is_whole ? 0 : 1;
}

} // namespace troupe::load
