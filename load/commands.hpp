// The commands of troupe-load.
#pragma once

#include <string>
#include <vector>

namespace troupe::load {

/// `troupe-load run`: sends requests at a rate and reports latencies and throughput.
int run_command(const std::vector<std::string>& arguments);

/// `troupe-load eval`: perplexity and bits per byte of held-out text through the REST API.
int eval_command(const std::vector<std::string>& arguments);

/// `troupe-load trace`: records which experts a cluster uses, window by window.
int trace_command(const std::vector<std::string>& arguments);

} // namespace troupe::load
