#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/json_object.hpp"

namespace troupe::model {

/// Fills layers, naming and what else is particular to an architecture, from its own fields of config.json.
/// The common fields of `config` (hidden, vocab_size) are set already.
using describe_function = void (*)(const json_object& json, std::size_t num_layers, model_config& config);

struct architecture {
  const char* name;
  const char* model_type; // what transformers calls it in config.json's field of that name
  double rope_theta;      // where config.json gives none
  describe_function describe;
};

/// @returns the architecture of that name, or null
const architecture* find_architecture(const std::string& name);

/// @returns the architecture of config.json's model_type. @errors  model_error that lists what is supported
const architecture& find_architecture_of_type(const json_object& json);

/// Their names, for messages.
std::string supported_architectures();

/// Reads a count that must lie in 1..max. @errors  model_error that names the field
std::size_t positive(const json_object& json, const std::string& key, std::int64_t max);

} // namespace troupe::model
