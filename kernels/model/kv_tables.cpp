#include "kernels/model/kv_tables.hpp"

#include "kernels/model/kv_layers.hpp"

#include <algorithm>
#include <utility>

namespace troupe::model {

namespace {

constexpr std::size_t most_tables = 8;

kv_reach reach_of(const layer_program& layer, std::size_t max_context) {
  const auto* attend = layer.find<attend_op>();
  if (attend == nullptr)
    return {};
  const kv_reach reach{attend->window, attend->chunk};
  return std::max(reach.window, reach.chunk) < max_context ? reach : kv_reach{};
}

/// Whether all layers keep the same of a token.
bool is_uniform(const model_config& config) {
  const auto kept = [](const layer_program& layer) { return kv_layer(layer, kernels::dtype::bf16); };
  const auto first = kept(config.layers.front());
  return std::ranges::all_of(config.layers, [&](const layer_program& layer) { return kept(layer) == first; });
}

} // namespace

kv_tables single_kv_table(const model_config& config) {
  kv_tables result;
  for (std::size_t layer = 0; layer < config.num_layers(); ++layer) {
    result.table_of.push_back(0);
    result.place_of.push_back(layer);
  }
  return result;
}

kv_tables kv_tables_by_reach(const model_config& config) {
  if (!is_uniform(config))
    return single_kv_table(config);
  std::vector<std::pair<kv_reach, std::size_t>> counts;
  for (const auto& layer : config.layers) {
    const auto reach = reach_of(layer, config.max_context);
    const auto found = std::ranges::find(counts, reach, &std::pair<kv_reach, std::size_t>::first);
    if (found == counts.end())
      counts.emplace_back(reach, 1);
    else
      ++found->second;
  }
  const auto places = std::ranges::min(counts, {}, &std::pair<kv_reach, std::size_t>::second).second;

  kv_tables result{.reaches = {}, .table_of = {}, .place_of = {}};

  struct open_table {
    kv_reach reach;
    std::size_t number;
    std::size_t num_layers;
  };

  std::vector<open_table> open; // of each reach the last one
  for (const auto& layer : config.layers) {
    const auto reach = reach_of(layer, config.max_context);
    auto found = std::ranges::find(open, reach, &open_table::reach);
    if (found == open.end())
      found = open.insert(open.end(), {reach, 0, places});
    if (found->num_layers == places) {
      *found = {reach, result.reaches.size(), 0};
      result.reaches.push_back(reach);
    }
    result.table_of.push_back(found->number);
    result.place_of.push_back(found->num_layers++);
  }
  return result.reaches.size() <= most_tables ? result : single_kv_table(config);
}

} // namespace troupe::model
