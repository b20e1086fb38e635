#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "load/commands.hpp"
#include "load/load_run.hpp"
#include "services/client/server_flags.hpp"
#include "services/options/option_parser.hpp"

namespace troupe::load {

namespace asio = boost::asio;

namespace {

struct run_options {
  server_flags server;
  std::string model;
  std::string prompts;
  std::string input_len = "8:128";
  std::string output_len = "1:128";
  std::string output;
  std::uint32_t num_prompts = 100;
  std::uint32_t vocab_size = 256;
  std::uint32_t max_concurrency = 1024;
  std::uint32_t seed = 0;
  std::uint32_t timeout_seconds = 600;
  double request_rate = std::numeric_limits<double>::infinity();
  double burstiness = 1.0;
  double temperature = 0.0;
  double duration = 0.0;
  bool save_detailed = false;
  std::vector<std::string> goodput;
};

/// In the format of `vllm bench serve`.
std::string date_of_now() {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

} // namespace

int run_command(const std::vector<std::string>& arguments) {
  run_options o;
  option_parser parser("troupe-load run",
                       "Sends completion requests at a rate and reports what users would see.");
  o.server.declare(parser);
  parser.text("model", "NAME", "name of the model to ask for; default: the served model", &o.model);
  parser.text("prompts", "FILE", "JSONL with one \"prompt\" per line; default: random token ids", &o.prompts);
  parser.number("num-prompts", "number of requests to send", &o.num_prompts, 1, 1U << 24);
  parser.text("random-input-len", "LO:HI", "length of random prompts in tokens", &o.input_len);
  parser.text("random-output-len", "LO:HI", "length of answers in tokens", &o.output_len);
  parser.number("random-vocab-size", "draw random token ids below N", &o.vocab_size, 1, 1U << 24);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  parser.real("request-rate", "requests per second; inf or 0: all at once", &o.request_rate, 0, infinity);
  parser.real("burstiness", "1: Poisson arrivals; lower: burstier; higher: more regular; inf: a fixed gap",
              &o.burstiness, 0.01, infinity);
  parser.number("max-concurrency", "maximum number of requests in flight", &o.max_concurrency, 1, 1U << 20);
  parser.real("duration", "stop sending after X seconds; 0: send all requests", &o.duration, 0, 1e6);
  parser.real("temperature", "sampling temperature of all requests", &o.temperature, 0, 2);
  parser.number("seed", "seed of prompts and arrival times", &o.seed, 0, ~0U);
  parser.number("timeout", "seconds until a request counts as failed", &o.timeout_seconds, 1, 86400);
  parser.list("goodput", "NAME:MS",
              "report the rate of requests whose ttft, tpot or e2el is at most MS milliseconds, such as "
              "ttft:200; may be repeated",
              &o.goodput, [](const std::string& entry, const std::string& source) {
                parse_goodput(entry, source);
                return entry;
              });
  parser.toggle("save-detailed", "include the answers in the report as \"generated_texts\"",
                &o.save_detailed);
  parser.text("output", "FILE", "write the report to this file as JSON", &o.output);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  std::vector<std::string> texts;
  if (!o.prompts.empty())
    texts = read_prompts(o.prompts);
  auto prompts = make_prompts(texts, o.num_prompts, o.seed, parse_range(o.input_len, "--random-input-len"),
                              parse_range(o.output_len, "--random-output-len"), o.vocab_size);
  run_settings settings{date_of_now(), o.model, o.request_rate, o.burstiness, o.max_concurrency, {}};
  if (o.request_rate == 0.0)
    settings.request_rate = infinity;
  for (const auto& goal : o.goodput) {
    auto [name, milliseconds] = parse_goodput(goal, "--goodput");
    settings.goodput.insert_or_assign(name, milliseconds); // of equal names the last one counts
  }
  settings.has_texts = o.save_detailed;
  load_settings asked;
  asked.server = o.server.server();
  asked.model = o.model;
  asked.temperature = o.temperature;
  asked.max_concurrency = o.max_concurrency;
  asked.timeout = std::chrono::seconds(o.timeout_seconds);
  asked.duration = o.duration;
  asked.keeps_text = o.save_detailed;
  asio::io_context io(1);
  load_run run(io, asked, std::move(prompts),
               arrival_times(o.num_prompts, o.request_rate, o.burstiness, o.seed));
  asio::co_spawn(io, run.run(), asio::detached);
  io.run();
  settings.start_time = run.start_time();
  std::cout << report_text(run.records(), run.duration());
  bool failed = false;
  for (const auto& record : run.records())
    if (!record.ok && !std::exchange(failed, true))
      std::cerr << "first failure: " << record.error << '\n';
  if (!o.output.empty()) {
    std::ofstream out(o.output);
    out << report_json(settings, run.records(), run.duration()) << '\n';
    out.close();
    if (!out) {
      std::cerr << "troupe-load: cannot write " << o.output << '\n';
      return 1;
    }
  }
  return failed ? 1 : 0;
}

} // namespace troupe::load
