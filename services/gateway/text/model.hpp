#pragma once

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/vocabulary.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace troupe::text {

/// The `model` of tokenizer.json: splits one pre-tokenized piece into ids. Immutable and thread-safe.
class model {
 public:
  virtual ~model() = default;

  /// Appends the ids of @p piece, which is not empty. @throws text_error for a character that the model can
  /// write in no way.
  virtual void encode(std::string_view piece, std::vector<std::int32_t>& ids) const = 0;

  /// Whether no id stands for more of a piece than the longest entry, or than one character: where characters
  /// are dropped, or a run of unknown ones is one id, there is no such bound.
  /// @param byte_level  pieces are made of the byte-level alphabet
  virtual bool covers_all(bool byte_level) const = 0;

  const vocabulary& entries() const noexcept { return entries_; }

 protected:
  vocabulary entries_;
};

/// @throws text_error naming what is missing, malformed or unsupported.
std::unique_ptr<const model> make_model(const json_view& json);
std::unique_ptr<const model> make_bpe_model(const json_view& json);
std::unique_ptr<const model> make_unigram_model(const json_view& json);

} // namespace troupe::text
