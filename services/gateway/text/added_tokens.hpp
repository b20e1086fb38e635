// Finds a tokenizer's added tokens (special tokens and others) in a text.
#pragma once

#include "services/gateway/text/added_token.hpp"
#include "services/gateway/text/byte_trie.hpp"
#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/model.hpp"
#include "services/gateway/text/normalizer.hpp"
#include "services/gateway/text/pieces.hpp"
#include "services/gateway/text/tokenizer_config.hpp"
#include "services/gateway/text/vocabulary.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::text {

/// The added tokens of one tokenizer. Immutable and thread-safe.
class added_tokens {
 public:
  /// Where their ids come from.
  enum class ids {
    of_places, ///< as in Hugging Face's tokenizers: an entry of the model keeps its id, the others follow the
               ///< vocabulary in order, whatever `id` says
    as_listed, ///< as in slow tokenizers: `id` counts, and an entry of the model that is not listed keeps its
               ///< id
  };

  /// Merges tokenizer.json and the folder's other files as transformers does.
  /// @param json  tokenizer.json; one without added tokens differs in nothing from the other files
  added_tokens(const json_view& json, const tokenizer_config& config, const vocabulary& entries,
               const normalizer* normal, ids from);

  /// Differences between tokenizer.json and the other files, a line for each kind.
  const std::vector<std::string>& differences() const noexcept { return differences_; }

  /// Cuts `input` at the tokens that are searched before normalization.
  std::vector<piece> split_raw(std::string_view input) const { return split(raw_, input); }

  /// Cuts a normalized text at the tokens that are searched after normalization.
  std::vector<piece> split_normalized(std::string_view text) const { return split(normalized_, text); }

  const added_token* find(std::int32_t id) const noexcept;
  std::optional<std::int32_t> id_of(std::string_view content) const;

  /// Bytes of the longest token, as written or normalized; empty when one also takes the blanks around it,
  /// whose number is unbounded.
  std::optional<std::size_t> longest() const;

  std::int32_t end_id() const noexcept { return end_id_; }

 private:
  std::vector<piece> split(const byte_trie& tokens, std::string_view text) const;
  void index(const std::vector<added_token>& tokens, const json_view& json, const vocabulary& entries,
             const normalizer* normal, ids from);

  std::unordered_map<std::int32_t, added_token> by_id_;
  string_map<std::int32_t> ids_;
  byte_trie raw_;
  byte_trie normalized_;
  std::int32_t end_id_ = 0;
  std::vector<std::string> differences_;
};

} // namespace troupe::text
