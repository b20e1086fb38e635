// Exceptions of tokenizers and chat templates.
#pragma once

#include <stdexcept>

namespace troupe::text {

/// A tokenizer or chat template file is unusable. The message names the file and the place in it.
class text_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The model's chat template refuses a conversation or cannot render it: the caller's fault, answered with
/// 400. The message is for the caller: for `raise_exception` of a template, its text.
class template_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Text processing has no room for this request now, or does not work at all: the server's fault, answered as
/// worth a retry.
class text_unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

} // namespace troupe::text
