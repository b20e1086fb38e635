// Every metric family of Troupe: its name, type, help, labels and processes. The families take all of that
// from here, and docs/metrics.md is generated from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "services/metrics/bucket_edges.hpp"

namespace troupe::metrics {

enum class family_type : std::uint8_t { counter, gauge, histogram };

/// "counter", "gauge" or "histogram", as in Prometheus.
const char* name_of(family_type type);

struct label_spec {
  const char* name;
  /// Values known at the start; series of counters exist with them from the start.
  std::vector<const char*> values{};
  /// Meaning of the values, unless `values` lists them all.
  const char* meaning = "";
};

struct family_spec {
  const char* name; ///< without the prefix
  family_type type;
  const char* help;
  std::vector<label_spec> labels{};
  const bucket_edges* edges = nullptr; ///< of histograms
  /// When the family exists; empty: always.
  const char* condition = "";
  /// vLLM's name, if different; the family is also shown under it with the prefix `vllm:`.
  const char* vllm_name = "";
  bool has_prefix = true; ///< false: a name common to all programs
};

/// The families of one kind of process.
struct process_families {
  const char* process; ///< "gateway"
  const char* title;   ///< for the document
  std::span<const family_spec> families;
};

/// In the order of the document: gateway, scheduler, attention, expert, every.
std::span<const process_families> catalogue();

/// The entry of this name, without the prefix.
/// @throws std::logic_error  the catalogue has no such name
const family_spec& spec_of(std::string_view name);

/// The tables of docs/metrics.md, in Markdown.
std::string catalogue_tables();

/// The catalogue for tests: {"families": [{"name", "type", "process", "labels", "condition", "prefix",
/// "vllm_name"}]}.
std::string catalogue_json();

} // namespace troupe::metrics
