// Configs as JSON, parsed like a config.json.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/error.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace troupe::test {

inline model::model_config parse(const nlohmann::json& config) {
  return model::parse_config(config.dump(), "config.json");
}

/// @returns what is wrong with the config, or "accepted"
inline std::string refusal(const nlohmann::json& config) {
  try {
    parse(config);
  } catch (const model::model_error& e) {
    return e.what();
  }
  return "accepted";
}

/// The config with some fields added or replaced.
inline nlohmann::json with(nlohmann::json config, const nlohmann::json& more) {
  config.update(more);
  return config;
}

} // namespace troupe::test
