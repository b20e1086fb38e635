#include "services/metrics/expert_row_counts.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace troupe::metrics {

void expert_row_counts::add(std::size_t layer, std::span<const std::uint64_t> rows) {
  const std::lock_guard guard{mutex_};
  if (rows_.size() <= layer)
    rows_.resize(layer + 1);
  auto& of_layer = rows_[layer];
  if (of_layer.size() < rows.size())
    of_layer.resize(rows.size(), 0);
  for (std::size_t expert = 0; expert < rows.size(); ++expert)
    of_layer[expert] += rows[expert];
}

std::vector<std::size_t> expert_row_counts::to_show(const std::vector<std::uint64_t>& rows,
                                                    const std::vector<prometheus::Counter*>& shown,
                                                    bool all) const {
  std::vector<std::size_t> experts;
  for (std::size_t expert = 0; expert < rows.size(); ++expert)
    if (rows[expert] > 0)
      experts.push_back(expert);
  std::stable_sort(experts.begin(), experts.end(),
                   [&rows](std::size_t lhs, std::size_t rhs) { return rows[lhs] > rows[rhs]; });
  if (!all && experts.size() > busiest_of_layer)
    experts.resize(busiest_of_layer);
  std::erase_if(experts, [&shown](std::size_t expert) { return shown[expert] != nullptr; });
  return experts;
}

void expert_row_counts::show(registry& families) {
  counts now;
  {
    const std::lock_guard guard{mutex_};
    now = rows_;
  }
  std::size_t num_used = 0;
  for (const auto& of_layer : now)
    num_used += of_layer.size() - static_cast<std::size_t>(std::count(of_layer.begin(), of_layer.end(), 0));
  series_.resize(now.size());
  for (std::size_t layer = 0; layer < now.size(); ++layer) {
    const auto& rows = now[layer];
    auto& shown = series_[layer];
    shown.resize(rows.size(), nullptr);
    if (const auto sum = std::accumulate(rows.begin(), rows.end(), std::uint64_t{0}); sum > 0)
      raise_to(families.counter("expert_layer_rows_total", {{"layer", std::to_string(layer)}}),
               static_cast<double>(sum));
    for (const std::size_t expert : to_show(rows, shown, num_used <= max_series_)) {
      if (num_series_ == max_series_)
        break;
      shown[expert] = &families.counter(
          "expert_rows_total", {{"layer", std::to_string(layer)}, {"expert", std::to_string(expert)}});
      ++num_series_;
    }
    for (std::size_t expert = 0; expert < rows.size(); ++expert)
      if (shown[expert] != nullptr)
        raise_to(*shown[expert], static_cast<double>(rows[expert]));
  }
}

} // namespace troupe::metrics
