// The pages of a gateway as `troupe top` reads them.
#pragma once

#include <string>
#include <vector>

#include "services/pages/cluster_page.hpp"
#include "services/pages/placement_page.hpp"

namespace troupe::top {

/// GET /cluster/history: rows of the windows that it has, [layer][expert]; no experts in a dense layer.
using expert_rows = std::vector<std::vector<double>>;

/// All of these throw std::runtime_error for a page that is none.
pages::cluster_page parse_cluster(const std::string& text);
pages::placement_page parse_placement(const std::string& text);
expert_rows parse_history(const std::string& text);

} // namespace troupe::top
