#pragma once

#include "services/gateway/text/byte_trie.hpp"
#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/model.hpp"
#include "services/gateway/text/normalizer.hpp"
#include "services/gateway/text/pieces.hpp"
#include "services/gateway/text/vocabulary.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::text {

/// One of `added_tokens`: an entry that is found in the text before the model sees it.
struct added_token {
  std::string content;
  std::string decoded; ///< what decoders see: the content as the normalizer writes it
  bool single_word = false;
  bool strip_left = false;
  bool strip_right = false;
  bool normalized = false; ///< looked for in the normalized text
  bool special = false;
};

/// The added tokens of a tokenizer. Immutable and thread-safe.
class added_tokens {
 public:
  /// Ids are given as Hugging Face gives them: an entry of the model keeps its id, others follow the
  /// vocabulary in order, whatever `id` says.
  added_tokens(const json_view& json, const vocabulary& entries, const normalizer* normal);

  /// Cuts @p input at the tokens that are looked for before normalization.
  std::vector<piece> split_raw(std::string_view input) const { return split(raw_, input); }

  /// Cuts a normalized text at the tokens that are looked for in there.
  std::vector<piece> split_normalized(std::string_view text) const { return split(normalized_, text); }

  const added_token* find(std::int32_t id) const noexcept;
  std::optional<std::int32_t> id_of(std::string_view content) const;

  /// Bytes of the longest one, as it is written or normalized; nothing when one takes blanks around it with
  /// it, of which there may be any number.
  std::optional<std::size_t> longest() const;

  std::int32_t end_id() const noexcept { return end_id_; }

 private:
  std::vector<piece> split(const byte_trie& tokens, std::string_view text) const;

  std::unordered_map<std::int32_t, added_token> by_id_;
  string_map<std::int32_t> ids_;
  byte_trie raw_;
  byte_trie normalized_;
  std::int32_t end_id_ = 0;
};

} // namespace troupe::text
