// The results of a load run, with the names of `vllm bench serve`.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace troupe::load {

/// One finished request; times in seconds.
struct request_record {
  bool ok = false;
  std::string error; ///< when not ok
  std::string model; ///< the model that answered
  unsigned input_tokens = 0;
  unsigned output_tokens = 0;
  double start = 0.0;       ///< sent, since the start of the run
  double queued = 0.0;      ///< waited for other requests to end before it was sent
  double ttft = 0.0;        ///< first token
  double latency = 0.0;     ///< last byte
  std::vector<double> gaps; ///< between chunks that carried tokens
  std::string text;         ///< the answer, if kept
};

/// The settings of a run; runs with equal settings are comparable.
struct run_settings {
  std::string date;  ///< 20260131-235959
  std::string model; ///< requested; empty: the served one
  double request_rate = std::numeric_limits<double>::infinity();
  double burstiness = 1.0;
  std::uint32_t max_concurrency = 0; ///< 0: no bound
  /// Latencies of well-served requests: upper bounds in milliseconds for `ttft`, `tpot` or `e2el`; empty: not
  /// measured.
  std::map<std::string, double> goodput;
  double start_time = 0.0; ///< of the run, in seconds of Unix time; `start_times` count from it
  bool has_texts = false;  ///< the report includes the answers as `generated_texts`
};

/// Reads "ttft:200", milliseconds.
/// @throws option_error naming `flag`, for an unknown name or no number
std::pair<std::string, double> parse_goodput(const std::string& text, const std::string& flag);

/// JSON with the settings, `duration`, `completed`, `failed`, token totals and throughputs; mean, median, std
/// and percentiles of ttft, tpot, itl and e2el in milliseconds; and a list with lengths, times in seconds and
/// errors of each request. TPOT = (latency − TTFT) / (tokens − 1).
/// @param duration  seconds from the first request to the last answer
std::string report_json(const run_settings& settings, const std::vector<request_record>& records,
                        double duration);

/// A short form for people.
std::string report_text(const std::vector<request_record>& records, double duration);

/// Linear interpolation between the closest ranks, as in numpy.
/// @param sorted  ascending, not empty
double percentile(const std::vector<double>& sorted, double percent);

} // namespace troupe::load
