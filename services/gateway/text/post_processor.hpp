// The `post_processor` of tokenizer.json: adds the special tokens around a sequence.
#pragma once

#include "services/gateway/text/json_view.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::text {

/// The post-processor for one sequence. Immutable and thread-safe.
class post_processor {
 public:
  /// Adds nothing.
  post_processor() = default;

  /// Adds the given tokens before and after the sequence.
  post_processor(std::optional<std::int32_t> bos, std::optional<std::int32_t> eos);

  /// @throws text_error naming what is missing, malformed or unsupported.
  explicit post_processor(const json_view& json);

  /// Whether the result contains the sequence itself.
  bool keeps_sequence() const;

  /// `ids` with their special tokens.
  std::vector<std::int32_t> apply(std::vector<std::int32_t> ids) const;

 private:
  /// Marks the place of the sequence in a template.
  static constexpr std::int32_t sequence_slot = -1;

  void read(const json_view& json);
  void read_template(const json_view& json);

  std::vector<std::vector<std::int32_t>> templates_; // applied one after the other
};

} // namespace troupe::text
