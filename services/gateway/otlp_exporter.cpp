#include "services/gateway/otlp_exporter.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "services/options/network_address.hpp"
#include "services/options/option_parser.hpp"

namespace troupe {

namespace {

constexpr auto complaint_interval = std::chrono::seconds{10};
constexpr auto last_patience = std::chrono::seconds{1};
constexpr const char* default_path = "/v1/traces";
constexpr const char* scheme = "http://";

std::uint64_t unix_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

} // namespace

otlp_exporter::otlp_exporter(const std::string& endpoint, std::string model, process_log log)
    : model_(std::move(model)), log_(std::move(log)), ids_(std::random_device{}()) {
  if (!endpoint.starts_with(scheme)) {
    throw option_error("--otlp-endpoint: '" + endpoint
                       + "' is no address of a collector; write http://HOST:PORT (4318 is OTLP's port)");
  }
  const std::string rest = endpoint.substr(std::string{scheme}.size());
  const auto slash = std::min(rest.find('/'), rest.size());
  const host_port server = parse_host_port(rest.substr(0, slash), "--otlp-endpoint");
  server_ = {server.host, server.port, {}, nullptr};
  path_ = rest.size() > slash + 1 ? rest.substr(slash) : default_path;
  thread_ = std::thread([this] { run(); });
}

otlp_exporter::~otlp_exporter() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void otlp_exporter::record(const http::access_record& record) {
  if (!is_exported(record))
    return;
  const auto now = unix_ns();
  const std::lock_guard lock{mutex_};
  if (waiting_.size() >= max_waiting) {
    ++dropped_;
    return;
  }
  waiting_.push_back({record, now, std::max<std::uint64_t>(ids_(), 1)});
}

void otlp_exporter::run() {
  for (;;) {
    std::unique_lock lock{mutex_};
    if (!stopping_)
      changed_.wait_for(lock, interval, [this] { return stopping_; });
    const bool is_last = stopping_;
    const auto until = std::chrono::steady_clock::now() + last_patience;
    std::string why = "they come faster than they are sent";
    auto lost = std::exchange(dropped_, 0);
    while (!waiting_.empty()) {
      const auto count = std::min(waiting_.size(), max_in_request);
      const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
      std::vector<otlp_span> spans(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
      waiting_.erase(waiting_.begin(), end);
      lock.unlock();
      const std::chrono::milliseconds patience = is_last ? last_patience : deadline;
      if (const auto failure = send(otlp_body(spans, model_, log_.name()), patience); !failure.empty()) {
        why = failure;
        lost += spans.size();
      }
      lock.lock();
      if (is_last ? std::chrono::steady_clock::now() >= until : stopping_) {
        lost += is_last ? waiting_.size() : 0;
        break;
      }
    }
    lock.unlock();
    complain(why, lost);
    if (is_last)
      return;
  }
}

/// @returns the error; empty: the collector has taken the spans
std::string otlp_exporter::send(std::string body, std::chrono::milliseconds patience) const {
  try {
    const http_answer answer = fetch(server_, "POST", path_, std::move(body), patience);
    if (answer.status < 200 || answer.status >= 300)
      return "status " + std::to_string(answer.status);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

void otlp_exporter::complain(const std::string& why, std::uint64_t lost) {
  untold_ += lost;
  const auto now = std::chrono::steady_clock::now();
  if (untold_ == 0 || now < next_complaint_)
    return;
  next_complaint_ = now + complaint_interval;
  log_.line("otlp",
            std::to_string(untold_) + " spans for the collector at "
                + host_port_text(server_.host, server_.port) + " are lost: " + why,
            {{"spans", untold_}});
  untold_ = 0;
}

} // namespace troupe
