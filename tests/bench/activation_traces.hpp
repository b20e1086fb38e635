// Activations to judge placements by: recorded ones and made-up ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/planner/planner_input.hpp"

namespace troupe {

struct activation_trace {
  std::string name;
  std::string batch; ///< what one window is
  std::vector<planner_window> windows;
};

/// Reads JSON lines as `troupe-load trace` (load/activation_trace.hpp) and tests/bench/record_activations.py
/// write them: a trace for each domain of the file, in the order in which they appear. Windows in which a
/// layer has no rows are left out. Throws std::runtime_error that names the file when it is none.
std::vector<activation_trace> read_traces(const std::filesystem::path& file);

/// The traces' windows side by side: window i has the rows of all windows i. As long as the shortest.
activation_trace mixed(const std::vector<activation_trace>& traces);

/// From the first trace to the second: the share of the second grows from window to window.
activation_trace fading(const activation_trace& from, const activation_trace& to);

struct synthetic_shape {
  uint32_t num_layers = 4;
  uint32_t num_experts = 64;
  uint32_t num_windows = 96;
  uint32_t rows_per_window = 4096; ///< (row, expert) pairs of a layer
};

/// Popularity by Zipf's law with exponent 1, experts in random order; windows differ by sampling alone.
activation_trace zipf_trace(const synthetic_shape& shape, uint32_t seed);

/// Popularity wanders from window to window: a random walk of its logarithms.
activation_trace drifting_trace(const synthetic_shape& shape, uint32_t seed);

/// Experts in eight groups; in each window some groups are four times as busy as others, together.
activation_trace correlated_trace(const synthetic_shape& shape, uint32_t seed);

} // namespace troupe
