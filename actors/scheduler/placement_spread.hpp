// Over how many hosts one layer's experts should be spread. Pure.
//
// More hosts share the work of a layer, but each host that a micro-batch touches costs a message there and
// one back. A layer on one host waits for all active experts in turn; a layer on 256 hosts sends 256
// messages.
#pragma once

#include <cstdint>
#include <limits>

namespace troupe {

/// What one layer of one micro-batch costs.
struct placement_costs {
  /// Time that a host takes for one active expert, mostly to stream its weights.
  double expert_ns = 150'000;
  /// Time that one more host touched takes of the attention worker: a request sent and a result received.
  double message_ns = 140'000;
};

// Both from docs/decisions/0002-split-cost.md: sixteen int8 experts of 5.5 MB take 2.4 ms of two cores, and a
// message of 50 to 60 KB takes 60 to 80 us of processor time at either end.

/// What the spread is chosen for.
struct placement_workload {
  placement_costs costs;
  std::uint32_t num_rows = 64; ///< of a micro-batch: a decode step of 64 sequences
  std::uint32_t top_k = 8;     ///< experts that each row chooses
  /// No layer need live on fewer hosts than this, and in a cluster of at most this many hosts each layer
  /// lives on all of them: then totals can be within one of each other, and the loss of a host costs every
  /// layer little. There are few messages to save.
  std::uint32_t small_cluster = 8;
  /// Any number of hosts that costs at most this share more than the best will do.
  double slack = 0.05;
};

/// Expected number of hosts that have at least one active expert, when `num_experts` are spread evenly over
/// `num_hosts` and each of `num_rows` rows chooses `top_k` distinct experts uniformly.
double expected_hosts_touched(std::uint32_t num_experts, std::uint32_t num_hosts, std::uint32_t num_rows,
                              std::uint32_t top_k);

/// Expected number of active experts of the host that has most of them, under the same assumptions; experts
/// are taken as active independently of each other, which overstates it a little.
double expected_max_active(std::uint32_t num_experts, std::uint32_t num_hosts, std::uint32_t num_rows,
                           std::uint32_t top_k);

/// message_ns × hosts touched + expert_ns × most active experts of a host, in ns.
double layer_cost_ns(const placement_workload& workload, std::uint32_t num_experts, std::uint32_t num_hosts);

/// Numbers of hosts for a layer. Within [low, high] the choice is free for other aims, such as even totals.
struct spread_range {
  std::uint32_t low = 0;
  std::uint32_t best = 0;
  std::uint32_t high = 0;
  bool operator==(const spread_range&) const = default;
};

/// The spread of a layer with `num_experts` (each replica counts as an expert of its own) in a cluster of
/// `num_hosts` that can hold `max_experts` each: at least as many hosts as memory asks for, at most one for
/// each expert. In a small cluster, and where all hosts are the best choice, the range is that one number; it
/// changes by no more than one when a host comes or goes, so that no layer has to move as a whole. All zero
/// without experts or hosts.
spread_range choose_spread(const placement_workload& workload, std::uint32_t num_experts,
                           std::uint32_t num_hosts,
                           std::uint64_t max_experts = std::numeric_limits<std::uint64_t>::max());

} // namespace troupe
