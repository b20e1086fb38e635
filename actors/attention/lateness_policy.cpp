#include "actors/attention/lateness_policy.hpp"

#include <algorithm>

namespace troupe {

void lateness_policy::sent() {
  budget_ = std::min(budget_ + 1, defaults::hedge_window);
}

void lateness_policy::answered(std::uint64_t num_rows, duration elapsed) {
  const auto batch_ns = static_cast<double>(elapsed.count());
  const auto row_ns = batch_ns / static_cast<double>(num_rows);
  row_ns_ = row_ns_ > 0 ? row_ns_ + (row_ns - row_ns_) / 8 : row_ns;
  batch_ns_ = batch_ns_ > 0 ? batch_ns_ + (batch_ns - batch_ns_) / 8 : batch_ns;
}

lateness_policy::duration lateness_policy::expected(std::uint64_t num_rows) const {
  if (batch_ns_ == 0)
    return defaults::unmeasured_expert_batch;
  return duration{static_cast<std::int64_t>(std::max(batch_ns_, row_ns_ * static_cast<double>(num_rows)))};
}

lateness_policy::duration lateness_policy::hedge_after(std::uint64_t num_rows) const {
  return std::max<duration>(defaults::hedge_min, 5 * expected(num_rows));
}

lateness_policy::duration lateness_policy::patience(std::uint64_t num_rows, std::uint32_t repeats) const {
  constexpr std::uint32_t most_doublings = 4;
  const auto measured =
      std::clamp<duration>(5 * expected(num_rows), defaults::expert_batch_timeout, defaults::unhosted_wait);
  return measured * (1U << std::min(repeats, most_doublings));
}

} // namespace troupe
