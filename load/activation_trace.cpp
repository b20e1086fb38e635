#include "load/activation_trace.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

namespace troupe::load {

namespace {

using nlohmann::ordered_json;

constexpr auto format = "troupe-trace 1";

std::string line_of(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + '\n';
}

/// To the millisecond: further digits are noise.
double rounded(double seconds) {
  return std::round(seconds * 1e3) / 1e3;
}

} // namespace

trace_recorder::trace_recorder(const pages::history_page& before)
    : fingerprint_(before.fingerprint), tokens_before_(before.tokens) {
  for (const auto& window : before.windows) {
    auto& last = last_[window.worker];
    last = std::max(last, window.sequence);
  }
}

bool trace_recorder::is_new(const pages::window_part& window) const {
  const auto known = last_.find(window.worker);
  return known == last_.end() || window.sequence > known->second;
}

bool trace_recorder::is_short(const pages::history_page& page) const {
  std::uint64_t shown = 0;
  for (const auto& window : page.windows)
    shown += is_new(window) ? window.tokens : 0;
  return page.tokens > tokens_before_ + counted_ + shown;
}

std::vector<pages::window_part> trace_recorder::take(pages::history_page page) {
  if (fingerprint_.empty()) {
    fingerprint_ = page.fingerprint;
  } else if (page.fingerprint != fingerprint_) {
    throw std::runtime_error("/cluster/history is of model " + page.fingerprint + " now, and was of "
                             + fingerprint_);
  }
  if (page.tokens < tokens_before_ + counted_) {
    throw std::runtime_error("/cluster/history has counted " + std::to_string(page.tokens)
                             + " tokens, fewer than before: the cluster has lost its history, and the"
                               " recording ends");
  }
  counted_ = page.tokens - tokens_before_;
  std::vector<pages::window_part> fresh;
  for (auto& window : page.windows) {
    if (!is_new(window))
      continue;
    last_[window.worker] = window.sequence;
    taken_ += window.tokens;
    fresh.push_back(std::move(window));
  }
  return fresh;
}

std::string trace_header(const std::string& name, const std::string& window, const pages::history_page& model,
                         const ordered_json& about) {
  ordered_json header{{"format", format},
                      {"trace", name},
                      {"window", window},
                      {"fingerprint", model.fingerprint},
                      {"layers", ordered_json::array()}};
  for (std::size_t layer = 0; layer < model.layer_experts.size(); ++layer)
    if (model.layer_experts[layer] > 0)
      header["layers"].push_back(layer);
  header.update(about);
  return line_of(header);
}

std::string trace_line(const pages::window_part& window, const std::vector<std::uint32_t>& layer_experts,
                       const std::string& domain, double at_seconds) {
  ordered_json line{{"rows", ordered_json::array()}};
  for (std::size_t layer = 0; layer < layer_experts.size(); ++layer) {
    if (layer_experts[layer] == 0)
      continue;
    std::vector<std::uint64_t> rows(layer_experts[layer]);
    const auto& pairs = window.rows.at(layer);
    for (std::size_t i = 0; i < pairs.size(); i += 2)
      rows.at(pairs[i]) += pairs[i + 1];
    line["rows"].push_back(std::move(rows));
  }
  line["domain"] = domain;
  line["tokens"] = window.tokens;
  if (window.micro_batches.value_or(0) > 0)
    line["steps"] = *window.micro_batches;
  line["at_s"] = rounded(at_seconds);
  line["duration_s"] = rounded(static_cast<double>(window.duration_ms) / 1e3);
  line["worker"] = window.worker;
  line["sequence"] = window.sequence;
  return line_of(line);
}

} // namespace troupe::load
