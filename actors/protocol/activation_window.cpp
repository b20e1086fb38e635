#include "actors/protocol/activation_window.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace troupe {

namespace {

constexpr char sparse_form = 0;
constexpr char dense_form = 1;

void put_number(std::string& bytes, std::uint64_t value) {
  value = std::min(value, max_window_number);
  for (; value >= 128; value >>= 7U)
    bytes += static_cast<char>(128U | (value & 127U));
  bytes += static_cast<char>(value);
}

void put_layer(std::string& bytes, const std::vector<std::uint64_t>& rows) {
  const auto num_active =
      static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [](auto count) { return count > 0; }));
  if (rows.size() - num_active <= num_active) { // a zero costs a byte, a gap about a byte
    bytes += dense_form;
    for (const auto count : rows)
      put_number(bytes, count);
    return;
  }
  bytes += sparse_form;
  put_number(bytes, num_active);
  std::uint64_t left_out = 0;
  for (const auto count : rows) {
    if (count == 0) {
      ++left_out;
      continue;
    }
    put_number(bytes, left_out);
    put_number(bytes, count);
    left_out = 0;
  }
}

/// Reads numbers from the front of untrusted bytes.
class number_reader {
 public:
  explicit number_reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t number(std::uint64_t bound = max_window_number) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(next());
      value |= std::uint64_t{byte & 127U} << shift;
      if (value > bound)
        break;
      if (byte < 128)
        return value;
    }
    throw std::runtime_error("a number of an activation window is out of range");
  }

  char next() {
    if (at_ == bytes_.size())
      throw std::runtime_error("an activation window ends too early");
    return bytes_[at_++];
  }

  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

void take_layer(number_reader& in, std::vector<std::uint64_t>& rows) {
  const auto form = in.next();
  if (form == dense_form) {
    for (auto& count : rows)
      count = in.number();
    return;
  }
  if (form != sparse_form)
    throw std::runtime_error("an activation window has a layer of an unknown form");
  std::uint64_t expert = 0;
  for (auto left = in.number(); left > 0; --left, ++expert) {
    expert += in.number(); // both are far below 2^63
    if (expert >= rows.size())
      throw std::runtime_error("an activation window names an expert that its layer does not have");
    rows[expert] = in.number();
  }
}

} // namespace

std::uint64_t num_rows(const activation_counts& counts) {
  std::uint64_t sum = 0;
  for (const auto& layer : counts.rows)
    sum = std::accumulate(layer.begin(), layer.end(), sum);
  return sum;
}

activation_counts counts_between(const activation_counts& before, const activation_counts& after) {
  auto result = after;
  result.tokens -= before.tokens;
  result.micro_batches -= before.micro_batches;
  for (std::size_t layer = 0; layer < before.rows.size(); ++layer)
    std::transform(result.rows[layer].begin(), result.rows[layer].end(), before.rows[layer].begin(),
                   result.rows[layer].begin(), std::minus<>{});
  return result;
}

std::vector<std::uint32_t> shape_of(const activation_counts& counts) {
  std::vector<std::uint32_t> result;
  result.reserve(counts.rows.size());
  for (const auto& layer : counts.rows)
    result.push_back(static_cast<std::uint32_t>(layer.size()));
  return result;
}

std::string shape_flaw_of(const std::vector<std::uint32_t>& layer_experts) {
  const auto experts = std::accumulate(layer_experts.begin(), layer_experts.end(), std::uint64_t{0});
  if (layer_experts.empty() || layer_experts.size() > max_history_layers || experts == 0
      || experts > max_history_experts)
    return std::to_string(layer_experts.size()) + " layers with " + std::to_string(experts)
           + " experts are out of range";
  return {};
}

std::string encode(const activation_window& window) {
  std::string bytes;
  put_number(bytes, std::min(window.duration_ms, max_window_ms));
  put_number(bytes, window.counts.tokens);
  put_number(bytes, window.counts.micro_batches);
  for (const auto& layer : window.counts.rows)
    if (!layer.empty())
      put_layer(bytes, layer);
  return bytes;
}

activation_window decode_window(std::string_view bytes, const std::vector<std::uint32_t>& layer_experts) {
  number_reader in{bytes};
  activation_window result;
  result.duration_ms = in.number(max_window_ms);
  result.counts.tokens = in.number();
  result.counts.micro_batches = in.number();
  result.counts.rows.reserve(layer_experts.size());
  for (const auto experts : layer_experts) {
    auto& rows = result.counts.rows.emplace_back(experts);
    if (experts > 0)
      take_layer(in, rows);
  }
  if (!in.at_end())
    throw std::runtime_error("an activation window goes on behind its last layer");
  return result;
}

} // namespace troupe
