// GET /cluster: workers, load and placement. A gateway writes it; `troupe status` and `troupe top` read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/pages/page_part.hpp"

namespace troupe::pages {

using count = std::optional<std::uint64_t>; ///< no value: the page does not say

struct scheduler_part {
  bool reachable = false;
  std::optional<std::string> error; ///< why it is not reachable; then there is nothing else
  count term;
  std::optional<std::string> fingerprint; ///< of the model
  count queued;                           ///< requests that wait for a place
  count assigned;                         ///< requests that have one

  TROUPE_PAGE_PART(reachable, error, term, fingerprint, queued, assigned)
};

struct load_part {
  count running;
  count waiting;
  count kv_tokens_used;
  count prefix_queries; ///< tokens of the sequences that an attention worker has started
  count prefix_hits;    ///< of them, tokens whose keys it had
  count oldest_step_ms;

  TROUPE_PAGE_PART(running, waiting, kv_tokens_used, prefix_queries, prefix_hits, oldest_step_ms)
};

/// Without the scheduler a gateway knows name, role, id and endpoint alone.
struct worker_part {
  std::string name = "?";
  std::string role = "?"; ///< "attention", "expert" or "gateway"
  std::string id;         ///< in hexadecimal: 64-bit ids do not fit the numbers of JavaScript
  std::string endpoint;
  std::optional<std::string> numerics_class;
  count lease_age_ms;
  count max_num_seqs; ///< of an attention worker, and so are the next two
  count kv_capacity_tokens;
  count max_model_len;
  std::optional<load_part> load;
  std::optional<std::vector<std::pair<std::uint32_t, std::uint32_t>>> hosted; ///< (layer, expert)

  TROUPE_PAGE_PART(name, role, id, endpoint, numerics_class, lease_age_ms, max_num_seqs, kv_capacity_tokens,
                   max_model_len, load, hosted)
};

struct layer_part {
  std::size_t layer = 0;
  std::uint64_t version = 0;
  std::vector<std::vector<std::string>> experts; ///< names of the hosts of each

  TROUPE_PAGE_PART(layer, version, experts)
};

struct placement_part {
  count term;
  count epoch;
  std::optional<std::vector<layer_part>> layers; ///< no value: a gateway does not know where experts live

  TROUPE_PAGE_PART(term, epoch, layers)
};

struct cluster_page {
  bool ready = false;
  scheduler_part scheduler;
  std::vector<worker_part> workers;
  placement_part placement;

  TROUPE_PAGE_PART(ready, scheduler, workers, placement)
};

} // namespace troupe::pages
