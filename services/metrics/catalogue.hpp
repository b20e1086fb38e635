// Every metric family of Troupe: its name, type, help and labels, and the processes that show it. The
// families take all of that from here, and docs/metrics.md is made from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "services/metrics/bucket_edges.hpp"

namespace troupe::metrics {

enum class family_type : uint8_t { counter, gauge, histogram };

/// "counter", "gauge" or "histogram", as Prometheus writes it.
const char* name_of(family_type type);

struct label_spec {
  const char* name;
  /// Those that are known before anything happens; series of counters with them are there from the start.
  std::vector<const char*> values{};
  /// What the values are, where `values` does not list them all.
  const char* meaning = "";
};

struct family_spec {
  const char* name; ///< without the prefix
  family_type type;
  const char* help;
  std::vector<label_spec> labels{};
  const bucket_edges* edges = nullptr; ///< of histograms
  /// Where the family is missing otherwise; empty: it is always there.
  const char* condition = "";
  /// What vLLM calls it, where that is another name; shown as well under the prefix `vllm:`.
  const char* vllm_name = "";
  bool has_prefix = true; ///< false: the same name in the programs of everybody
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
/// @throws std::logic_error for a name that is not in the catalogue
const family_spec& spec_of(std::string_view name);

/// The tables of docs/metrics.md, in Markdown.
std::string catalogue_tables();

/// The catalogue for tests: {"families": [{"name", "type", "process", "labels", "condition", "prefix",
/// "vllm_name"}]}.
std::string catalogue_json();

} // namespace troupe::metrics
