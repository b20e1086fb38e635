#include "actors/history/history_store.hpp"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "actors/state/durable_file.hpp"
#include "actors/state/file_format.hpp"

namespace troupe {

namespace {

constexpr std::string_view magic = "troupe-history 2\n";

void put(std::string& out, std::uint64_t value) {
  for (unsigned shift = 0; shift < 64; shift += 8)
    out += static_cast<char>(value >> shift);
}

void put(std::string& out, const std::string& text) {
  put(out, text.size());
  out += text;
}

/// Reads what `put` wrote. The checksum was right, but the bytes are still untrusted.
class byte_reader {
 public:
  explicit byte_reader(std::string_view bytes) : left_(bytes) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    const auto bytes = take(8);
    for (unsigned i = 0; i < 8; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }

  /// Reads a number of elements that take at least `bytes_each` bytes each.
  std::size_t count(std::size_t bytes_each) {
    const auto value = number();
    if (value > left_.size() / bytes_each)
      throw std::runtime_error("it ends too early");
    return value;
  }

  std::string text() { return std::string{take(count(1))}; }

  void expect_end() const {
    if (!left_.empty())
      throw std::runtime_error("it goes on behind its end");
  }

 private:
  std::string_view take(std::size_t count) {
    if (count > left_.size())
      throw std::runtime_error("it ends too early");
    const auto result = left_.substr(0, count);
    left_.remove_prefix(count);
    return result;
  }

  std::string_view left_;
};

} // namespace

std::string render(const stored_history& stored) {
  const auto& history = stored.history;
  std::string out{magic};
  put(out, history.fingerprint);
  put(out, history.layer_experts.size());
  for (const auto experts : history.layer_experts)
    put(out, experts);
  put(out, history.half_life_ms);
  put(out, history.age_ms);
  put(out, history.tokens);
  put(out, history.rows);
  for (const auto& layer : history.decayed)
    for (const auto rows : layer)
      put(out, std::bit_cast<std::uint64_t>(rows));
  put(out, history.windows.size());
  for (const auto& window : history.windows) {
    put(out, window.worker.value);
    put(out, window.sequence);
    put(out, window.at_ms);
    put(out, window.encoded);
  }
  put(out, stored.counted.size());
  for (const auto& [worker, last] : stored.counted) {
    put(out, worker.value);
    put(out, last);
  }
  put(out, checksum_of(out));
  return out;
}

stored_history parse_stored_history(const std::string& content) {
  if (!content.starts_with(magic))
    throw std::runtime_error("it does not begin with 'troupe-history 2'");
  const auto end = content.size() - std::min<std::size_t>(8, content.size() - magic.size());
  const auto body = std::string_view{content}.substr(0, end);
  byte_reader sum{std::string_view{content}.substr(end)};
  if (sum.number() != checksum_of(body))
    throw std::runtime_error("the checksum does not match the content");
  byte_reader in{body.substr(magic.size())};
  stored_history result;
  auto& history = result.history;
  history.fingerprint = in.text();
  for (auto left = in.count(8); left > 0; --left)
    history.layer_experts.push_back(static_cast<std::uint32_t>(in.number()));
  if (auto flaw = shape_flaw_of(history.layer_experts); !flaw.empty())
    throw std::runtime_error(flaw);
  history.half_life_ms = in.number();
  history.age_ms = in.number();
  history.tokens = in.number();
  history.rows = in.number();
  for (const auto experts : history.layer_experts)
    for (auto& rows : history.decayed.emplace_back(experts))
      rows = std::bit_cast<double>(in.number());
  for (auto left = in.count(32); left > 0; --left) {
    auto& window = history.windows.emplace_back();
    window.worker.value = in.number();
    window.sequence = in.number();
    window.at_ms = in.number();
    window.encoded = in.text();
  }
  for (auto left = in.count(16); left > 0; --left) {
    const worker_id worker{in.number()};
    result.counted[worker] = in.number();
  }
  in.expect_end();
  if (const auto flaw = flaw_of(history); !flaw.empty())
    throw std::runtime_error(flaw);
  return result;
}

history_store::history_store(const std::string& directory) : path_(directory + "/history") {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw std::runtime_error("cannot make the state directory '" + directory + "': " + error.message());
}

std::optional<stored_history> history_store::load() const {
  remove_unfinished(path_);
  const auto content = read_file(path_);
  if (!content)
    return std::nullopt;
  refuse_later_format(*content, "troupe-history", 2);
  return parse_stored_history(*content);
}

void history_store::save(const stored_history& history) const {
  replace_file(path_, render(history));
}

void history_store::set_aside() const {
  std::error_code error;
  std::filesystem::rename(path_, path_ + ".unused", error);
  if (error)
    throw std::runtime_error("cannot rename '" + path_ + "': " + error.message());
}

} // namespace troupe
