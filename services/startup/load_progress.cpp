#include "services/startup/load_progress.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

constexpr auto first_line_after = std::chrono::seconds{1};
constexpr auto between_lines = std::chrono::seconds{10};
constexpr std::uint64_t megabyte = 1'000'000;

} // namespace

load_progress::load_progress(process_log log, std::function<clock::time_point()> now)
    : log_(std::move(log)), now_(std::move(now)) {}

void load_progress::begin(const std::string& event, const std::string& what) {
  const std::lock_guard lock{mutex_};
  if (event_ == event && what_ == what)
    return;
  event_ = event;
  what_ = what;
  begun_ = now_();
  next_line_ = begun_ + first_line_after;
  is_told_ = has_first_ = false;
  amount_ = {};
}

void load_progress::reached(std::uint64_t bytes, std::uint64_t total) {
  const std::lock_guard lock{mutex_};
  if (event_.empty())
    return;
  if (!std::exchange(has_first_, true))
    first_ = bytes;
  amount_ = {bytes, total};
  if (now_() >= next_line_)
    tell();
}

void load_progress::end() {
  const std::lock_guard lock{mutex_};
  if (is_told_)
    tell();
  event_.clear();
}

std::string load_progress::text() const {
  const std::lock_guard lock{mutex_};
  return event_.empty() ? std::string{} : what_ + figures();
}

metrics::load_bytes load_progress::bytes() const {
  const std::lock_guard lock{mutex_};
  return amount_;
}

std::string load_progress::figures() const {
  if (!has_first_)
    return {};
  const auto [bytes, total] = amount_;
  std::string result = ": ";
  if (total > 0) {
    result += std::to_string(bytes * 100 / total) + " %, " + std::to_string(bytes / megabyte) + " of "
              + std::to_string(total / megabyte) + " MB";
  } else {
    result += std::to_string(bytes / megabyte) + " MB";
  }
  const double seconds = std::chrono::duration<double>(now_() - begun_).count();
  if (seconds >= 0.1) {
    const auto rate = static_cast<double>(bytes - std::min(bytes, first_)) / seconds;
    result += ", " + std::to_string(static_cast<std::uint64_t>(rate) / megabyte) + " MB/s";
  }
  return result;
}

void load_progress::tell() {
  is_told_ = true;
  next_line_ = now_() + between_lines;
  log_.line(event_, what_ + figures(), {{"bytes", amount_.bytes}, {"total_bytes", amount_.total}});
}

} // namespace troupe
