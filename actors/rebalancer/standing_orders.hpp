// What operators have said of the placement for good: it outlives planners, schedulers and workers, so
// workers are named. Pure, but for the store.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/ids.hpp"
#include "actors/rebalancer/rebalancer_messages.hpp"

namespace troupe {

struct standing_orders {
  std::map<expert_id, std::vector<std::string>> pins; ///< names ascending, distinct
  std::map<expert_id, uint32_t> replicas;             ///< at least so many
  std::set<std::string> drained;
  bool is_paused = false; ///< no change by itself
  bool operator==(const standing_orders&) const = default;
};

/// Names of the expert workers that are here.
using worker_names = std::set<std::string>;

/// What a command makes of the orders. rebalance, move and assign leave them as they are; move and assign of
/// a pinned expert are refused.
/// @param layer_experts  [layers] of the model; empty while it is not known, and then experts cannot be named
/// @return the orders, or a sentence that says what is wrong with the command and what there is
std::variant<standing_orders, std::string> apply(const standing_orders& orders,
                                                 const placement_command& command,
                                                 const std::vector<uint32_t>& layer_experts,
                                                 const worker_names& workers);

/// Text with a checksum, one order a line, for people to read.
std::string render(const standing_orders& orders);

/// @errors throws `std::runtime_error` that says what is wrong, and where
standing_orders parse_standing_orders(const std::string& text);

/// The file `standing_orders` in the scheduler's state directory. Blocks: not for actors of the pool.
class standing_orders_store {
 public:
  /// @param directory  that exists
  explicit standing_orders_store(const std::string& directory);

  const std::string& path() const { return path_; }

  /// @returns nothing when there is no such file
  /// @errors throws `std::runtime_error` for one that cannot be used, `later_format` for one of a later
  /// version
  std::optional<standing_orders> load() const;

  /// @errors throws `std::runtime_error`
  void save(const standing_orders& orders) const;

 private:
  std::string path_;
};

} // namespace troupe
