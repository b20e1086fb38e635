// A memory limit and what a process reserves of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

class memory_budget {
 public:
  /// Memory of a process without weights, caches and rows: program, threads, connections, and the
  /// allocator's reserve.
  static constexpr std::uint64_t program_bytes = std::uint64_t{64} << 20U;

  /// @param limit  for the whole process; empty: no limit
  explicit memory_budget(std::optional<std::uint64_t> limit) : limit_(limit) {}

  bool is_limited() const { return limit_.has_value(); }

  std::optional<std::uint64_t> limit() const { return limit_; }

  /// The unreserved rest, without the program; UINT64_MAX without a limit.
  std::uint64_t left() const;

  /// Reserves memory.
  void take(std::uint64_t bytes) { taken_ += bytes; }

  /// For errors: "the memory limit of the cgroup is 300 MiB, of which the program takes 64 MiB and the
  /// attention side 20 MiB".
  std::string text() const;

 private:
  std::optional<std::uint64_t> limit_;
  std::uint64_t taken_ = 0;
};

/// "300 MiB", rounded down.
std::string mebibytes_text(std::uint64_t bytes);

/// The largest request that stays within `bytes` when the allocator rounds up by up to a sixteenth
/// (kernels/buffer.hpp).
std::uint64_t without_rounding(std::uint64_t bytes);

/// `bytes` minus `reserve`, at least 0.
std::uint64_t bytes_beside(std::uint64_t bytes, std::uint64_t reserve);

} // namespace troupe
