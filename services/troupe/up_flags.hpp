// The flags of `troupe up`, and what it passes on to the processes that it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "services/options/role_options.hpp"

namespace troupe {

struct up_flags {
  up_options up;
  model_options model;
  gateway_options gateway;
  attention_options attention;
  expert_options expert;
  scheduler_options scheduler;
  log_options logs;
  trace_options traces;

  void declare(option_parser& parser);
  /// @throws option_error where ports that are counted up from a flag would exceed 65535
  void check_ports() const;

  /// The gateway flags of gateway `index`, with its own ports.
  gateway_options gateway_at(std::uint32_t index) const;

  /// Command-line words for one process: each flag above that its role takes, and its share of the
  /// processors.
  std::vector<std::string> scheduler_words() const;
  std::vector<std::string> expert_words(std::uint32_t index) const;
  std::vector<std::string> attention_words(std::uint32_t index) const;
  std::vector<std::string> gateway_words(std::uint32_t index) const;
};

} // namespace troupe
