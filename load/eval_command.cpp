#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "load/commands.hpp"
#include "load/score.hpp"
#include "services/client/http_client.hpp"
#include "services/client/server_flags.hpp"
#include "services/client/terminal_text.hpp"
#include "services/options/option_parser.hpp"

namespace troupe::load {

namespace asio = boost::asio;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> read_texts(const fs::path& file) {
  std::ifstream in(file);
  if (!in)
    throw http_error("cannot read " + file.string());
  std::vector<std::string> texts;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("text") || !record["text"].is_string())
      throw http_error(file.string() + ":" + std::to_string(number) + ": no JSON object with a \"text\"");
    texts.push_back(record["text"].get<std::string>());
  }
  return texts;
}

/// Scores one text: the server echoes it with a logprob for every token but the first.
asio::awaitable<score> score_text(const server_url& server, const std::string& model, std::string text) {
  nlohmann::json body = {
      {"prompt", text}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}, {"temperature", 0}};
  if (!model.empty())
    body["model"] = model;
  auto answer = co_await exchange(server, "POST", "/v1/completions", body.dump(), std::chrono::seconds(600));
  auto parsed = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (answer.status != 200 || !parsed.is_object())
    throw http_error("status " + std::to_string(answer.status) + ": " + excerpt(answer.body, 500));
  co_return score_echo(text, parsed.at("choices").at(0).at("logprobs"));
}

/// Scores all texts, `concurrency` at a time, on one thread; results in the order of the texts.
std::vector<score> score_all(const server_url& server, const std::string& model,
                             const std::vector<std::string>& texts, std::uint32_t concurrency) {
  asio::io_context io(1);
  std::vector<score> scores(texts.size());
  std::size_t next = 0;
  std::exception_ptr failure;
  auto work = [&]() -> asio::awaitable<void> {
    while (next < texts.size() && !failure) {
      std::size_t mine = next++;
      try {
        scores[mine] = co_await score_text(server, model, texts[mine]);
      } catch (const std::exception&) {
        failure = std::current_exception();
      }
    }
  };
  for (std::uint32_t i = 0; i < concurrency; ++i)
    asio::co_spawn(io, work(), asio::detached);
  io.run();
  if (failure)
    std::rethrow_exception(failure);
  return scores;
}

} // namespace

int eval_command(const std::vector<std::string>& arguments) {
  server_flags asked;
  std::string model;
  std::string heldout = "load/heldout";
  std::string output;
  std::uint32_t concurrency = 8;
  option_parser parser("troupe-load eval",
                       "Measures perplexity and bits per byte on held-out text through the REST API.");
  asked.declare(parser);
  parser.text("model", "NAME", "name of the model to ask for; default: the served model", &model);
  parser.text("heldout", "DIR", "folder of <domain>.jsonl files with one \"text\" per line", &heldout);
  parser.number("max-concurrency", "number of requests in flight", &concurrency, 1, 1024);
  parser.text("output", "FILE", "write the figures to this file as JSON", &output);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(heldout))
    if (entry.path().extension() == ".jsonl")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw http_error("no <domain>.jsonl in " + heldout);
  const server_url server = asked.server();
  nlohmann::ordered_json figures;
  score total;
  auto print = [&](const std::string& name, const score& s) {
    std::printf("%s: perplexity %.4f, bits per byte %.4f (%llu tokens)\n", name.c_str(), s.perplexity(),
                s.bits_per_byte(), static_cast<unsigned long long>(s.tokens));
    figures[name] = {{"perplexity", s.perplexity()},
                     {"bits_per_byte", s.bits_per_byte()},
                     {"tokens", s.tokens},
                     {"bytes", s.bytes},
                     {"nats_per_token", s.nats / static_cast<double>(s.tokens)}};
  };
  for (const auto& file : files) {
    score domain;
    for (const auto& s : score_all(server, model, read_texts(file), concurrency))
      domain.add(s);
    print(file.stem().string(), domain);
    total.add(domain);
  }
  print("all", total);
  if (!output.empty()) {
    std::ofstream out(output);
    out << figures.dump(2) << '\n';
    out.close();
    if (!out) {
      std::cerr << "troupe-load: cannot write " << output << '\n';
      return 1;
    }
  }
  return 0;
}

} // namespace troupe::load
