// What a load run measured, under the names of `vllm bench serve`.
#pragma once

#include <string>
#include <vector>

namespace troupe::load {

/// One finished request; times in seconds.
struct request_record {
  bool ok = false;
  std::string error; ///< when not ok
  unsigned input_tokens = 0;
  unsigned output_tokens = 0;
  double start = 0.0;       ///< since the start of the run
  double ttft = 0.0;        ///< first token
  double latency = 0.0;     ///< last byte
  std::vector<double> gaps; ///< between chunks that carried tokens
};

/// JSON with `duration`, `completed`, `failed`, token totals, throughputs and mean, median, std and
/// percentiles of ttft, tpot, itl and e2el in milliseconds. TPOT = (latency − TTFT) / (tokens − 1).
/// @param duration  seconds from the first request to the last answer
std::string report_json(const std::vector<request_record>& records, double duration);

/// The same in a few lines for people.
std::string report_text(const std::vector<request_record>& records, double duration);

/// Linear interpolation between the closest ranks, as numpy does. @param sorted  ascending, not empty
double percentile(const std::vector<double>& sorted, double percent);

} // namespace troupe::load
