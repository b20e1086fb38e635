// Activations for judging placements: recorded and synthetic ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/planner/planner_input.hpp"

namespace troupe {

struct activation_trace {
  std::string name;
  std::string batch; ///< the meaning of a window
  std::vector<planner_window> windows;
};

/// Reads JSON lines written by `troupe-load trace` (load/activation_trace.hpp) or
/// tests/bench/record_activations.py: a trace for each domain of the file, in order. Leaves out windows in
/// which a layer has no rows.
/// @throws std::runtime_error naming a file that is no trace
std::vector<activation_trace> read_traces(const std::filesystem::path& file);

/// Adds traces: window i has the rows of all windows i. As long as the shortest.
activation_trace mixed(const std::vector<activation_trace>& traces);

/// From the first trace to the second: the share of the second grows from window to window.
activation_trace fading(const activation_trace& from, const activation_trace& to);

struct synthetic_shape {
  std::uint32_t num_layers = 4;
  std::uint32_t num_experts = 64;
  std::uint32_t num_windows = 96;
  std::uint32_t rows_per_window = 4096; ///< (row, expert) pairs of a layer
};

/// Popularity by Zipf's law with exponent 1, experts in random order; windows differ only by sampling.
activation_trace zipf_trace(const synthetic_shape& shape, std::uint32_t seed);

/// Popularity wanders from window to window: a random walk of its logarithms.
activation_trace drifting_trace(const synthetic_shape& shape, std::uint32_t seed);

/// Experts in eight groups; in each window some groups are four times as busy as others, together.
activation_trace correlated_trace(const synthetic_shape& shape, std::uint32_t seed);

} // namespace troupe
