#include "actors/history/activation_history.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace troupe {

std::string flaw_of(const history_snapshot& history) {
  if (history.fingerprint.empty())
    return "it names no model";
  if (auto flaw = shape_flaw_of(history.layer_experts); !flaw.empty())
    return flaw;
  if (history.decayed.size() != history.layer_experts.size())
    return "it has decayed rows for " + std::to_string(history.decayed.size()) + " layers, and "
           + std::to_string(history.layer_experts.size()) + " layers";
  for (std::size_t layer = 0; layer < history.decayed.size(); ++layer) {
    const auto& rows = history.decayed[layer];
    const auto what = "layer " + std::to_string(layer);
    if (rows.size() != history.layer_experts[layer])
      return what + " has decayed rows for " + std::to_string(rows.size()) + " experts, and "
             + std::to_string(history.layer_experts[layer]) + " experts";
    if (!std::all_of(rows.begin(), rows.end(), [](double x) { return std::isfinite(x) && x >= 0; }))
      return what + " has decayed rows that are no amount";
  }
  for (std::size_t i = 0; i < history.windows.size(); ++i)
    try {
      decode_window(history.windows[i].encoded, history.layer_experts);
    } catch (const std::runtime_error& flaw) {
      return "window " + std::to_string(i) + ": " + flaw.what();
    }
  return {};
}

activation_history::activation_history(limits bounds) : limits_(bounds) {
  state_.half_life_ms = static_cast<std::uint64_t>(limits_.half_life.count());
}

activation_history::activation_history(limits bounds, stored_history stored) : activation_history(bounds) {
  if (const auto flaw = flaw_of(stored.history); !flaw.empty())
    throw std::runtime_error(flaw);
  state_ = std::move(stored.history);
  state_.half_life_ms = static_cast<std::uint64_t>(limits_.half_life.count());
  for (auto& window : std::exchange(state_.windows, {}))
    keep(std::move(window));
  for (const auto& [id, last] : stored.counted)
    remember(id, last);
}

bool activation_history::is_of(const std::string& fingerprint,
                               const std::vector<std::uint32_t>& layer_experts) const {
  return is_empty() || (state_.fingerprint == fingerprint && state_.layer_experts == layer_experts);
}

bool activation_history::count(const activation_report& report, time_point now) {
  if (!is_of(report.fingerprint, report.layer_experts))
    throw std::runtime_error("the history is of model " + state_.fingerprint + " and the report of model "
                             + report.fingerprint);
  if (report.fingerprint.empty())
    throw std::runtime_error("the report names no model");
  if (auto flaw = shape_flaw_of(report.layer_experts); !flaw.empty())
    throw std::runtime_error(flaw);
  if (report.windows.size() > defaults::max_unsaved_windows)
    throw std::runtime_error("the report has " + std::to_string(report.windows.size())
                             + " windows, more than " + std::to_string(defaults::max_unsaved_windows));
  const auto known = counted(report.worker);
  std::vector<std::pair<std::uint64_t, activation_window>> fresh; // with their sequence numbers
  for (std::size_t i = 0; i < report.windows.size(); ++i) {
    auto window = decode_window(report.windows[i], report.layer_experts);
    if (const auto sequence = report.first + i; sequence > known)
      fresh.emplace_back(sequence, std::move(window));
  }
  if (fresh.empty())
    return false;
  begin(report);
  auto ended = now;
  for (const auto& [sequence, window] : fresh)
    ended -= std::chrono::milliseconds{window.duration_ms};
  for (const auto& [sequence, window] : fresh) {
    ended += std::chrono::milliseconds{window.duration_ms};
    auto older = window.duration_ms;
    if (last_)
      older = std::min(older, static_cast<std::uint64_t>(std::max<std::int64_t>(
                                  std::chrono::floor<std::chrono::milliseconds>(ended - *last_).count(), 0)));
    last_ = last_ ? std::max(*last_, ended) : ended;
    age_by(older);
    state_.tokens += window.counts.tokens;
    state_.rows += num_rows(window.counts);
    for (std::size_t layer = 0; layer < state_.decayed.size(); ++layer)
      std::transform(state_.decayed[layer].begin(), state_.decayed[layer].end(),
                     window.counts.rows[layer].begin(), state_.decayed[layer].begin(),
                     [](double sum, std::uint64_t rows) { return sum + static_cast<double>(rows); });
    keep({report.worker, sequence, state_.age_ms, report.windows[sequence - report.first]});
  }
  remember(report.worker, fresh.back().first);
  return true;
}

std::uint64_t activation_history::counted(worker_id worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? 0 : found->second.last;
}

history_snapshot activation_history::snapshot(std::size_t max_windows) const {
  auto result = state_;
  const auto count = std::min(max_windows, windows_.size());
  result.windows.assign(windows_.end() - static_cast<std::ptrdiff_t>(count), windows_.end());
  return result;
}

stored_history activation_history::stored() const {
  stored_history result{snapshot(windows_.size()), {}};
  for (const auto& [id, worker] : workers_)
    result.counted.emplace(id, worker.last);
  return result;
}

void activation_history::begin(const activation_report& report) {
  if (!is_empty())
    return;
  state_.fingerprint = report.fingerprint;
  state_.layer_experts = report.layer_experts;
  for (const auto experts : report.layer_experts)
    state_.decayed.emplace_back(experts);
}

void activation_history::age_by(std::uint64_t milliseconds) {
  if (milliseconds == 0)
    return;
  state_.age_ms += milliseconds;
  const auto factor =
      std::exp2(-static_cast<double>(milliseconds) / static_cast<double>(state_.half_life_ms));
  for (auto& layer : state_.decayed)
    for (auto& rows : layer)
      rows *= factor;
}

void activation_history::keep(history_window window) {
  window_bytes_ += window.encoded.size();
  windows_.push_back(std::move(window));
  while (windows_.size() > limits_.max_windows || window_bytes_ > limits_.max_bytes) {
    window_bytes_ -= windows_.front().encoded.size();
    windows_.pop_front();
  }
}

void activation_history::remember(worker_id id, std::uint64_t last) {
  workers_[id] = {last, ++num_reports_};
  if (workers_.size() <= limits_.max_workers)
    return;
  workers_.erase(std::min_element(workers_.begin(), workers_.end(), [](const auto& l, const auto& r) {
    return l.second.report < r.second.report;
  }));
}

} // namespace troupe
