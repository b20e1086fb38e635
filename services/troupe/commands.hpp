// What the `troupe` program can do.
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

/// `troupe top`: load and latency of a running cluster, again and again.
int top_command(const std::vector<std::string>& arguments);

/// `troupe placement`: what the planner of a running cluster does, and what it is told.
int placement_commands(const std::vector<std::string>& arguments);

/// `troupe trace`: starts and stops tracing in a running cluster, and merges what it wrote.
int trace_commands(const std::vector<std::string>& arguments);

/// `troupe quantize`: a model folder with packed, quantized weights.
int quantize_command(const std::vector<std::string>& arguments);

/// `troupe tune`: measures which kernels a model is computed with.
int tune_command(const std::vector<std::string>& arguments);

/// `troupe tokenize`: token ids of a text.
int tokenize_command(const std::vector<std::string>& arguments);

/// `troupe completion`: a script for bash, zsh or fish.
int completion_command(const std::vector<std::string>& arguments);

} // namespace troupe
