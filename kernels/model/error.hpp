#pragma once

#include <stdexcept>
#include <string>

namespace troupe::model {

/// What is wrong with a model folder: one message that names the file, the field or tensor, and what was
/// expected. Thrown while a model is opened and loaded, never while it computes.
class model_error : public std::runtime_error {
 public:
  explicit model_error(const std::string& message) : std::runtime_error(message) {}
};

/// A file of the weights' cache was damaged and is gone: the next start writes it again, or finds a new one.
class cache_damaged : public model_error {
 public:
  using model_error::model_error;
};

} // namespace troupe::model
