// What an answer that does not stream has gained so far, within bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "services/gateway/http/api.hpp"
#include "services/gateway/openai/choice.hpp"

namespace troupe::http {

/// The choices of one answer. What all answers together gather is bounded by
/// `http_limits::max_gathered_bytes`.
class gathered_answer {
 public:
  gathered_answer(api& shared, size_t num_choices) : shared_(shared), choices_(num_choices) {}

  ~gathered_answer();
  gathered_answer(const gathered_answer&) = delete;
  gathered_answer& operator=(const gathered_answer&) = delete;

  /// Appends to a choice.
  /// @throws openai::api_error 400 when the answer becomes larger than `max_response_bytes`, 429 when all of
  /// them do
  void gain(uint32_t choice, openai::choice_delta more);

  /// Accounts for what is kept elsewhere for this answer.
  /// @throws as gain
  void account(size_t more_bytes);

  /// What a choice has gained; it is gone here.
  openai::choice_delta take(uint32_t choice);

  /// Of all choices, as they are held.
  size_t num_bytes() const noexcept { return num_bytes_; }

 private:
  api& shared_;
  std::vector<openai::choice_delta> choices_;
  size_t num_bytes_ = 0;
};

} // namespace troupe::http
