#include "load/load_run.hpp"

#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "load/stream_reader.hpp"
#include "services/client/http_client.hpp"

namespace troupe::load {

namespace asio = boost::asio;

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

/// "status 401: No API key was sent", if the server gives a text.
std::string refusal_text(const http_answer& answer) {
  std::string text = "status " + std::to_string(answer.status);
  auto body = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer message("/error/message");
  if (body.contains(message) && body[message].is_string())
    text += ": " + body[message].get<std::string>();
  return text;
}

} // namespace

load_run::load_run(asio::io_context& io, load_settings settings, std::vector<prompt> prompts,
                   std::vector<double> arrivals)
    : io_(io),
      settings_(std::move(settings)),
      prompts_(std::move(prompts)),
      arrivals_(std::move(arrivals)),
      records_(prompts_.size()),
      changed_(io),
      next_(io) {
  changed_.expires_at(clock::time_point::max());
}

asio::awaitable<void> load_run::run() {
  start_ = clock::now();
  start_time_ = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::size_t sent = 0;
  for (; sent < prompts_.size() && !is_over(); ++sent) {
    if (settings_.duration > 0.0 && arrivals_[sent] >= settings_.duration)
      break;
    next_.expires_at(
        start_ + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(arrivals_[sent])));
    boost::system::error_code cancelled;
    co_await next_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    while (in_flight_ >= settings_.max_concurrency)
      co_await wait_for_change();
    if (is_over())
      break;
    ++in_flight_;
    asio::co_spawn(io_, request(sent), asio::detached);
  }
  while (in_flight_ > 0)
    co_await wait_for_change();
  records_.resize(sent);
  duration_ = seconds_since(start_);
}

void load_run::stop() {
  stopped_ = true;
  next_.cancel();
}

bool load_run::is_over() const {
  return stopped_ || (settings_.duration > 0.0 && seconds_since(start_) >= settings_.duration);
}

asio::awaitable<void> load_run::wait_for_change() {
  boost::system::error_code cancelled;
  co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

asio::awaitable<void> load_run::request(std::size_t number) {
  const prompt& p = prompts_[number];
  request_record& record = records_[number];
  nlohmann::json body = {{"max_tokens", p.max_tokens},
                         {"temperature", settings_.temperature},
                         {"seed", number},
                         {"ignore_eos", true},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}}};
  if (!settings_.model.empty())
    body["model"] = settings_.model;
  body["prompt"] = p.tokens.empty() ? nlohmann::json(p.text) : nlohmann::json(p.tokens);
  auto begin = clock::now();
  record.start = std::chrono::duration<double>(begin - start_).count();
  record.queued = record.start - arrivals_[number];
  record.input_tokens = static_cast<unsigned>(p.tokens.size()); // for a text the server reports it
  stream_reader stream(record, settings_.keeps_text);
  auto on_event = [&](const std::string& data) { stream.take(data, seconds_since(begin)); };
  try {
    auto answer = co_await exchange(settings_.server, "POST", "/v1/completions", body.dump(),
                                    settings_.timeout, on_event);
    record.ok = answer.status == 200 && stream.done() && record.error.empty();
    if (!record.ok && record.error.empty())
      record.error = answer.status == 200 ? "the stream ended early" : refusal_text(answer);
  } catch (const std::exception& error) {
    // Any failure concerns only this request, and the run waits for its end.
    record.error = error.what();
  }
  record.latency = seconds_since(begin);
  --in_flight_;
  changed_.cancel();
}

} // namespace troupe::load
