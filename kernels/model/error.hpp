// Exceptions of opening and loading models.
#pragma once

#include <stdexcept>
#include <string>

namespace troupe::model {

/// A fault in a model folder: the message names the file, the field or tensor, and the expectation. Never
/// thrown while a model computes.
class model_error : public std::runtime_error {
 public:
  explicit model_error(const std::string& message) : std::runtime_error(message) {}
};

/// A file of the weights' cache was damaged and has been removed: the next start writes it again, or finds a
/// new one.
class cache_damaged : public model_error {
 public:
  using model_error::model_error;
};

} // namespace troupe::model
