// The figures of `troupe top`: a cluster between two samples.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "services/top/cluster_state.hpp"
#include "services/top/metrics_text.hpp"

namespace troupe::top {

/// What a process says of itself.
struct process_state {
  std::string role;
  /// When its figures came; nothing: it has not answered, and there are none.
  std::optional<std::chrono::steady_clock::time_point> answered_at;
  std::optional<double> cpu_seconds; ///< since it began
  std::optional<double> resident_bytes;
  std::optional<double> started; ///< when it began, in seconds since the epoch
  std::string error;             ///< why it has not answered; empty: it has
};

/// What a gateway has answered at one time.
struct sample {
  std::chrono::steady_clock::time_point at; ///< when the gateway's metrics came
  metrics_text metrics;
  pages::cluster_page cluster;
  std::optional<pages::placement_page> placement; ///< nothing where its page could not be read
  expert_rows recent_rows;                        ///< empty: not known
  std::vector<std::string> not_read;              ///< what could not be read, and why: "placement: ..."
  std::map<std::string, process_state> processes; ///< by name; those that were asked
};

/// Seconds that half, and all but one in a hundred, stay below; nothing where there were no observations.
struct latency {
  std::optional<double> p50;
  std::optional<double> p99;
};

/// An expert that gets more rows than the others of its layer.
struct hot_expert {
  std::size_t layer = 0;
  std::size_t expert = 0;
  double times_even = 0; ///< its rows over those of an even load of its layer
  std::vector<std::string> hosts;
};

struct worker_line {
  std::string name;
  std::string role;
  std::string state; ///< "ok", or what is wrong with it
  std::string running = "-";
  std::optional<std::uint64_t> waiting;
  std::optional<double>
      load; ///< share of its role's work: of the running sequences, or of the rows of all experts
  std::optional<double> processors; ///< that it has kept busy
  std::optional<double> resident_bytes;
  std::string memory = "-"; ///< what it holds
};

/// Nothing stands for what is not known, or not known yet.
struct overview {
  bool is_ready = false;
  std::string scheduler;                ///< "term 3", or why it does not answer
  std::optional<std::uint64_t> running; ///< requests that have a place
  std::optional<std::uint64_t> waiting; ///< requests that wait for one
  std::optional<double> ended_per_second;
  std::optional<double> refused_per_second;
  std::optional<double> prompt_tokens_per_second;
  std::optional<double> new_tokens_per_second;
  latency first_token;
  latency between_tokens;
  std::optional<std::uint64_t>
      kv_used; ///< tokens, over all attention workers; nothing where one does not say
  std::optional<std::uint64_t> kv_capacity; ///< of all attention workers; no value if one does not say
  std::optional<double> prefix_hits;        ///< share of the tokens of sequences that started in between
  std::string planner;                      ///< with the change under way
  std::optional<double> imbalance;
  std::vector<hot_expert> hottest;   ///< the hottest first
  std::vector<std::string> not_read; ///< what could not be read, and why
  std::vector<worker_line> workers;  ///< by role, and those that are not well first
};

/// @param before  an earlier sample; rates and latencies are of the time between
overview compare(const sample& before, const sample& after);

/// The experts with the most rows relative to their layer's mean, above the mean only.
/// @param most  upper bound of their number
std::vector<hot_expert> hottest_experts(const expert_rows& rows, const pages::cluster_page& cluster,
                                        std::size_t most);

} // namespace troupe::top
