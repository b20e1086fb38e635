// The `model` of tokenizer.json: splits a pre-tokenized piece into ids.
#pragma once

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/vocabulary.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// Interface of all models. Immutable and thread-safe.
class model {
 public:
  virtual ~model() = default;

  /// Appends the ids of `piece`, which is not empty.
  /// @throws text_error  the model cannot encode a character
  virtual void encode(std::string_view piece, std::vector<std::int32_t>& ids) const = 0;

  /// Whether each id stands for at most the longest entry, or one character. False where characters are
  /// dropped, or a run of unknown ones becomes one id.
  /// @param byte_level  pieces are in the byte-level alphabet
  virtual bool covers_all(bool byte_level) const = 0;

  const vocabulary& entries() const noexcept { return entries_; }

 protected:
  vocabulary entries_;
};

/// @throws text_error naming what is missing, malformed or unsupported.
std::unique_ptr<const model> make_model(const json_view& json);
std::unique_ptr<const model> make_bpe_model(const json_view& json);
std::unique_ptr<const model> make_unigram_model(const json_view& json);

/// Entries of a BPE model without a list of merges: two neighbours join if they are an entry together, those
/// of the lowest rank first, and of these the leftmost.
struct ranked_entries {
  static constexpr std::uint32_t never = ~0U; ///< neighbours do not become this entry

  struct entry {
    std::string token; ///< UTF-8
    std::uint32_t rank = never;
    bool whole = false; ///< found before a piece is split, the longest of several; no part of another entry
  };

  std::vector<entry> entries; ///< by id
  std::optional<std::string> unknown = std::nullopt;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool whole_word_first = false; ///< a piece that is an entry is not split
};

/// @throws text_error  an entry occurs twice
std::unique_ptr<const model> make_ranked_bpe_model(ranked_entries list);

} // namespace troupe::text
