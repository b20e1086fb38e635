#include "services/top/cluster_state.hpp"

#include <cstddef>
#include <stdexcept>

#include "services/client/terminal_text.hpp"
#include "services/pages/history_page.hpp"

namespace troupe::top {

namespace {

constexpr std::size_t shown = 200; ///< bytes of a text that is no page

expert_rows rows_of(const pages::history_page& history) {
  expert_rows rows;
  for (const auto num_experts : history.layer_experts)
    rows.emplace_back(num_experts);
  for (const auto& window : history.windows)
    for (std::size_t layer = 0; layer < rows.size(); ++layer) {
      const auto& pairs = window.rows[layer];
      for (std::size_t i = 0; i < pairs.size(); i += 2)
        rows[layer][pairs[i]] += static_cast<double>(pairs[i + 1]);
    }
  return rows;
}

} // namespace

pages::cluster_page parse_cluster(const std::string& text) {
  return pages::decode<pages::cluster_page>(text, "the answer is not about the cluster", shown);
}

pages::placement_page parse_placement(const std::string& text) {
  return pages::decode<pages::placement_page>(text, "the answer is not about the placement", shown);
}

expert_rows parse_history(const std::string& text) {
  try {
    return rows_of(pages::decode_history(text));
  } catch (const std::runtime_error&) {
    throw std::runtime_error("the answer is not about the history: " + excerpt(text, shown));
  }
}

} // namespace troupe::top
