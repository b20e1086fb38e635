#pragma once

#include "services/gateway/text/json_view.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::text {

/// The `post_processor` of tokenizer.json for one sequence: the special tokens around it. Immutable and
/// thread-safe.
class post_processor {
 public:
  /// Adds nothing.
  post_processor() = default;

  /// Adds the tokens that are given before and behind.
  post_processor(std::optional<std::int32_t> bos, std::optional<std::int32_t> eos);

  /// @throws text_error naming what is missing, malformed or unsupported.
  explicit post_processor(const json_view& json);

  /// Whether the sequence itself stays.
  bool keeps_sequence() const;

  /// @p ids with their special tokens.
  std::vector<std::int32_t> apply(std::vector<std::int32_t> ids) const;

 private:
  /// Where the sequence goes in a template.
  static constexpr std::int32_t sequence_slot = -1;

  void read(const json_view& json);
  void read_template(const json_view& json);

  std::vector<std::vector<std::int32_t>> templates_; // applied one after the other
};

} // namespace troupe::text
