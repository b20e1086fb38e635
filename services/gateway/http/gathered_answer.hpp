// The text of an answer that does not stream, gathered within bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "services/gateway/http/api.hpp"
#include "services/gateway/openai/choice.hpp"

namespace troupe::http {

/// The choices of one answer. `http_limits::max_gathered_bytes` bounds the bytes of all answers together.
class gathered_answer {
 public:
  gathered_answer(api& shared, std::size_t num_choices) : shared_(shared), choices_(num_choices) {}

  ~gathered_answer();
  gathered_answer(const gathered_answer&) = delete;
  gathered_answer& operator=(const gathered_answer&) = delete;

  /// Appends to a choice.
  /// @throws openai::api_error 400 when the answer becomes larger than `max_response_bytes`, 429 when all of
  /// them together do
  void gain(std::uint32_t choice, openai::choice_delta more);

  /// Accounts for bytes of this answer that are kept elsewhere.
  /// @throws as gain
  void account(std::size_t more_bytes);

  /// Moves the text of a choice out.
  openai::choice_delta take(std::uint32_t choice);

  /// Bytes of all choices.
  std::size_t num_bytes() const noexcept { return num_bytes_; }

 private:
  api& shared_;
  std::vector<openai::choice_delta> choices_;
  std::size_t num_bytes_ = 0;
};

} // namespace troupe::http
