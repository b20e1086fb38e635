// Operators' lasting orders about the placement. They outlive planners, schedulers and workers, so they refer
// to workers by name. Pure, except for the store.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/protocol/ids.hpp"
#include "actors/protocol/rebalancer_messages.hpp"

namespace troupe {

struct standing_orders {
  std::map<expert_id, std::vector<std::string>> pins; ///< names ascending, distinct
  std::map<expert_id, std::uint32_t> replicas;        ///< least number
  std::set<std::string> drained;
  bool is_paused = false; ///< no automatic changes
  bool operator==(const standing_orders&) const = default;
};

/// Names of the present expert workers.
using worker_names = std::set<std::string>;

/// Applies a command to the orders. rebalance, move and assign do not change them; move and assign of a
/// pinned expert are refused.
/// @param layer_experts  [layers] of the model; empty while it is unknown, and then experts cannot be named
/// @returns the orders, or a sentence with the error in the command and the valid choices
std::variant<standing_orders, std::string> apply(const standing_orders& orders,
                                                 const placement_command& command,
                                                 const std::vector<std::uint32_t>& layer_experts,
                                                 const worker_names& workers);

/// Text for people: one order a line, with a checksum.
std::string render(const standing_orders& orders);

/// @throws std::runtime_error naming the fault and its place
standing_orders parse_standing_orders(const std::string& text);

/// The file `standing_orders` in the scheduler's state directory. Blocks: not for actors of the pool.
class standing_orders_store {
 public:
  /// @param directory  must exist
  explicit standing_orders_store(const std::string& directory);

  const std::string& path() const { return path_; }

  /// @returns empty if there is no such file
  /// @throws std::runtime_error  it is unusable
  /// @throws later_format  a later version wrote it
  std::optional<standing_orders> load() const;

  /// @throws std::runtime_error
  void save(const standing_orders& orders) const;

 private:
  std::string path_;
};

} // namespace troupe
