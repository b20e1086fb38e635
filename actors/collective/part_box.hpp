// Where the parts of other ranks wait for the thread that computes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/collective/collective_messages.hpp"

namespace troupe {

/// Filled by actors, emptied by one thread that waits. A rank sends the next part only when it has
/// all ranks' parts of the exchange before, so at most two of each rank are here.
/// @threads any
class part_box {
 public:
  part_box(std::size_t rank, std::size_t num_ranks);

  /// @errors none: a part that no call can wait for breaks the group
  void put(collective_part&& part);

  /// Rank `rank` sends no more.
  void lose(std::size_t rank, const std::string& why);

  /// Before this rank sends its parts of an exchange: with them the others may go on to the next one.
  /// @errors collective_error once the group is broken
  void begin(std::uint64_t exchange);

  /// Waits for all other ranks' parts of the exchange that was begun.
  /// @returns [num_ranks], empty for this rank
  /// @errors collective_error: a rank is gone without having sent its part, is silent until `deadline`, or
  ///         does something else
  std::vector<payload> take(const std::string& operation, std::chrono::steady_clock::time_point deadline);

  /// Breaks the group: every call from now on ends with the first reason that was given.
  void break_up(const std::string& why);

  /// @errors collective_error once the group is broken
  void expect_whole() const;

 private:
  struct peer {
    std::map<std::uint64_t, collective_part> parts; // by exchange
    std::optional<std::string> lost;
  };

  /// The first rank that is gone without having sent its part; none: num_ranks.
  std::size_t gone_locked() const;
  /// The first rank that has not sent its part; none: num_ranks.
  std::size_t missing_locked() const;
  void break_up_locked(const std::string& why);
  [[noreturn]] void fail_locked() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t rank_;
  std::vector<peer> peers_;
  std::uint64_t exchange_ = 0; // that is under way
  std::optional<std::string> broken_;
};

} // namespace troupe
