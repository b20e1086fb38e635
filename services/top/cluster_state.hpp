// What the pages of a gateway say of its cluster, as far as it is shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::top {

/// Nothing where the page does not say: a gateway whose scheduler is away knows names and roles alone.
struct worker_state {
  std::string name;
  std::string role; ///< "attention", "expert" or "gateway"
  std::optional<uint64_t> lease_age_ms;
  std::optional<uint64_t> oldest_step_ms;
  std::optional<uint64_t> running;
  std::optional<uint64_t> waiting;
  std::optional<uint64_t> max_num_seqs; ///< of an attention worker, and so are the next two
  std::optional<uint64_t> kv_tokens_used;
  std::optional<uint64_t> kv_capacity_tokens;
  std::optional<uint64_t> num_hosted; ///< experts whose weights it holds
};

/// GET /cluster.
struct cluster_state {
  bool is_ready = false;
  std::string scheduler_error;  ///< why the scheduler does not answer; empty: it does
  std::optional<uint64_t> term; ///< nothing while the scheduler does not answer, and so for the next two
  std::optional<uint64_t> queued;
  std::optional<uint64_t> assigned;
  std::vector<worker_state> workers;
  std::vector<std::vector<std::vector<std::string>>> hosts; ///< [layer][expert]: names of its workers
};

/// GET /cluster/placement.
struct change_state {
  uint64_t id = 0;
  std::string reason;
  uint64_t done = 0;
  uint64_t left = 0;
  uint64_t given_up = 0;
};

struct placement_state {
  std::string planner; ///< "on", "off" or "paused"
  std::optional<double> imbalance;
  std::optional<change_state> change; ///< under way
  std::vector<std::string> drained;
};

/// GET /cluster/history: rows of the windows that it has, [layer][expert]; no experts in a dense layer.
using expert_rows = std::vector<std::vector<double>>;

/// All of these throw std::runtime_error for a page that is none.
cluster_state parse_cluster(const std::string& page);
placement_state parse_placement(const std::string& page);
expert_rows parse_history(const std::string& page);

} // namespace troupe::top
