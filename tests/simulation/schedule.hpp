// One seeded schedule: a cluster, some requests, some faults, and what must hold in the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/fault.hpp"

namespace troupe::simulation {

struct schedule_options {
  std::uint64_t seed = 1;
  std::uint32_t num_faults = 0;                      ///< 0: the seed says
  std::vector<fault_kind> kinds = all_fault_kinds(); ///< that are drawn from
};

struct schedule_result {
  /// What does not hold, a sentence each; empty when all is well.
  std::vector<std::string> violations{};
  /// What happened, a sentence each with its virtual time.
  std::vector<std::string> history{};
  std::uint64_t messages = 0;
  std::uint64_t num_requests = 0;
  std::uint64_t num_refused = 0; ///< that were told, before any token, that the cluster is not ready
  duration lasted{};             ///< virtual time
};

/// Runs it: a pure function of its argument.
///
/// The cluster begins whole. Requests and faults come within some seconds of virtual time, and all faults are
/// mended. Then:
/// - every request has exactly one answer: the tokens of an undisturbed run, or, without a token, the error
///   that the cluster is not ready. Whose gateway has died or turned it away has got the beginning of these
///   tokens;
/// - the cluster becomes whole and ready again within a deadline, and serves one more request;
/// - nothing is left behind: no session, sequence, KV block, queued row or place.
schedule_result run_schedule(const schedule_options& options);

} // namespace troupe::simulation
