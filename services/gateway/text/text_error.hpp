#pragma once

#include <stdexcept>

namespace troupe::text {

/// A tokenizer or chat template file that cannot be used. The message names the file and the place in it.
class text_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A conversation that the model's chat template refuses or cannot render: the caller's fault, answered as a
/// 400. The message is meant for the caller; for a template's own `raise_exception` it is that text.
class template_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The text side has no room for this request now, or cannot work at all: nobody's fault but ours, answered
/// as what may be tried again.
class text_unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

} // namespace troupe::text
