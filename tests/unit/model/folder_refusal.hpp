// What is wrong with a model folder.
#pragma once

#include "kernels/model/checkpoint.hpp"
#include "kernels/model/config.hpp"
#include "kernels/model/error.hpp"

#include <filesystem>
#include <string>

namespace troupe::test {

/// Opens and validates as a worker does.
/// @returns the error, or "accepted"
inline std::string refusal(const std::filesystem::path& folder) {
  try {
    const auto config = model::load_config(folder);
    model::checkpoint::open(folder).match(config);
  } catch (const model::model_error& e) {
    return e.what();
  }
  return "accepted";
}

} // namespace troupe::test
