// What a worker says of its role: its terms when it joins, and its load in every renewal of its lease.
//
// A new role is appended to worker_role, role_terms and role_load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/ids.hpp"

namespace troupe {

enum class worker_role : std::uint8_t { gateway = 0, attention = 1, expert = 2 };

std::string to_string(worker_role role);

/// What one request of a gateway holds at an attention worker.
struct held_place {
  request_id request;
  worker_id worker;
  std::uint32_t num_seqs = 0;
  std::uint64_t kv_tokens = 0;
  bool operator==(const held_place&) const = default;
};

struct gateway_terms {
  std::vector<held_place> places{}; ///< held by its requests; the scheduler frees all others
  bool operator==(const gateway_terms&) const = default;
};

struct attention_terms {
  std::uint32_t max_num_seqs = 0; ///< that run at once
  std::uint64_t kv_capacity_tokens = 0;
  std::uint32_t max_model_len = 0;    ///< positions of its longest sequence
  std::vector<sequence_id> running{}; ///< sequences in progress
  bool operator==(const attention_terms&) const = default;
};

/// Where an expert worker gets the weights of experts that it is ordered to host.
enum class weight_origin : std::uint8_t {
  files = 0,            ///< its model folder only
  peers_then_files = 1, ///< a worker that has them loaded, else its model folder
  peers = 2,            ///< other workers only: it has no files
};

struct expert_terms {
  std::uint64_t memory_bytes = 0;  ///< for experts; 0: unlimited
  std::uint64_t expert_bytes = 0;  ///< packed size of its largest expert
  std::vector<expert_id> hosted{}; ///< already loaded
  weight_origin weights = weight_origin::files;
  /// Its location, such as the node; hosts of one expert are spread over locations; empty: unknown.
  std::string topology{};
  bool operator==(const expert_terms&) const = default;
};

/// A worker that owes an answer.
struct complaint {
  worker_id about;
  std::uint64_t silent_ms = 0; ///< time without any answer while one was owed
  bool operator==(const complaint&) const = default;
};

struct gateway_load {
  std::vector<complaint> complaints{}; ///< about attention workers, which owe its sessions tokens
  bool operator==(const gateway_load&) const = default;
};

struct attention_load {
  std::uint64_t kv_tokens_used = 0;
  std::uint64_t at_experts = 0;        ///< micro-batches waiting for expert hosts
  std::vector<complaint> complaints{}; ///< about expert hosts
  /// Hashes of the landmarks (see `prefix_landmark`) whose keys it has, at most
  /// `defaults::max_prefix_digest`.
  std::vector<std::uint64_t> prefixes{};
  std::uint64_t prefix_queries = 0; ///< tokens of the sequences that have started
  std::uint64_t prefix_hits = 0;    ///< of them, tokens whose keys it had
  bool operator==(const attention_load&) const = default;
};

/// What an expert host has computed since it started.
struct expert_work {
  std::uint64_t busy_ns = 0; ///< time of its engine
  std::uint64_t runs = 0;    ///< experts run, each once a step that had rows for it
  std::uint64_t rows = 0;    ///< (row, expert) pairs
  bool operator==(const expert_work&) const = default;
};

struct expert_load {
  expert_work work{};
  bool operator==(const expert_load&) const = default;
};

/// In the order of worker_role. std::monostate: not said yet, or of a role that this version does not know.
using role_terms = std::variant<std::monostate, gateway_terms, attention_terms, expert_terms>;

/// Likewise.
using role_load = std::variant<std::monostate, gateway_load, attention_load, expert_load>;

/// Does it belong to this role?
template <class... Parts>
bool is_of(worker_role role, const std::variant<std::monostate, Parts...>& said) {
  return said.index() == static_cast<std::size_t>(role) + 1;
}

TROUPE_DECLARE_INSPECT(held_place)
TROUPE_DECLARE_INSPECT(gateway_terms)
TROUPE_DECLARE_INSPECT(attention_terms)
TROUPE_DECLARE_INSPECT(expert_terms)
TROUPE_DECLARE_INSPECT(role_terms)
TROUPE_DECLARE_INSPECT(complaint)
TROUPE_DECLARE_INSPECT(gateway_load)
TROUPE_DECLARE_INSPECT(attention_load)
TROUPE_DECLARE_INSPECT(expert_work)
TROUPE_DECLARE_INSPECT(expert_load)
TROUPE_DECLARE_INSPECT(role_load)

} // namespace troupe
