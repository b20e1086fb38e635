// The commands of the `troupe` program.
#pragma once

#include <string>
#include <vector>

namespace troupe {

/// `troupe serve`: a whole cluster in one process.
int serve_command(const std::vector<std::string>& arguments);

/// `troupe up`: a local cluster of separate processes, supervised.
int up_command(const std::vector<std::string>& arguments);

/// `troupe status`: workers, placement and load of a running cluster.
int status_command(const std::vector<std::string>& arguments);

/// `troupe top`: load and latency of a running cluster, refreshed periodically.
int top_command(const std::vector<std::string>& arguments);

/// `troupe placement`: shows and controls the planner of a running cluster.
int placement_commands(const std::vector<std::string>& arguments);

/// `troupe trace`: starts and stops tracing in a running cluster, and merges the traces.
int trace_commands(const std::vector<std::string>& arguments);

/// `troupe inspect`: what a model is and needs, and whether it loads.
int inspect_command(const std::vector<std::string>& arguments);

/// `troupe quantize`: a model folder with packed, quantized weights.
int quantize_command(const std::vector<std::string>& arguments);

/// `troupe tune`: measures which kernels are the fastest for a model.
int tune_command(const std::vector<std::string>& arguments);

/// `troupe tokenize`: token ids of a text.
int tokenize_command(const std::vector<std::string>& arguments);

/// `troupe completion`: a script for bash, zsh or fish.
int completion_command(const std::vector<std::string>& arguments);

} // namespace troupe
