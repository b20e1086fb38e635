// The encoding and decoding steps of one tokenizer, put together.
#pragma once

#include "services/gateway/text/added_tokens.hpp"
#include "services/gateway/text/decoder.hpp"
#include "services/gateway/text/model.hpp"
#include "services/gateway/text/normalizer.hpp"
#include "services/gateway/text/post_processor.hpp"
#include "services/gateway/text/pre_tokenizer.hpp"
#include "services/gateway/text/tokenizer_config.hpp"
#include "services/gateway/text/word_cache.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// What splits a text into ids.
struct encoding_steps {
  std::unique_ptr<const normalizer> normalize = nullptr;       // may be null
  std::unique_ptr<const pre_tokenizer> pre_tokenize = nullptr; // may be null
  std::unique_ptr<const model> encode;
};

/// The steps of tokenizer.json, with the additions of tokenizer_config.json. Immutable except for the caches,
/// and thread-safe.
class pipeline {
 public:
  /// @throws text_error naming what is missing, malformed or unsupported.
  pipeline(const json_view& json, const tokenizer_config& config);

  /// The same for a model that is stored in another file than tokenizer.json: `json` has the rest.
  pipeline(encoding_steps steps, const json_view& json, const tokenizer_config& config,
           added_tokens::ids from);

  /// Ids of `text`, valid UTF-8, without those of the post-processor.
  std::vector<std::int32_t> encode(std::string_view text) const;

  /// A lower bound on the number of ids that encode returns for `text`; 0 where none is known.
  std::size_t fewest_ids(std::string_view text) const;

  /// The decoder's input for `id`; null outside the vocabulary.
  const std::string* decoder_token(std::int32_t id) const noexcept;

  struct named_ids {
    std::optional<std::int32_t> bos;
    std::optional<std::int32_t> eos;
    std::optional<std::int32_t> pad;
    std::optional<std::int32_t> unk;
  };

  const model& entries() const noexcept { return *model_; }

  const added_tokens& added() const noexcept { return added_; }

  const decoder& decoding() const noexcept { return decoder_; }

  const post_processor& processing() const noexcept { return post_; }

  const named_ids& named() const noexcept { return named_; }

  std::optional<std::int32_t> id_of(std::string_view token) const;

 private:
  void add_ends(const tokenizer_config& config);
  void encode_normalized(std::string text, std::size_t from_first, word_cache& cache,
                         std::vector<std::int32_t>& ids) const;
  void encode_piece(std::string_view piece, word_cache& cache, std::vector<std::int32_t>& ids) const;
  std::size_t longest_id() const;
  std::unique_ptr<word_cache> take_cache() const;
  void give_back(std::unique_ptr<word_cache> cache) const;

  std::unique_ptr<const normalizer> normalizer_;       // may be null
  std::unique_ptr<const pre_tokenizer> pre_tokenizer_; // may be null
  std::unique_ptr<const model> model_;
  added_tokens added_;
  post_processor post_;
  decoder decoder_;
  named_ids named_;
  // Most bytes of a text that one id stands for; 0: unbounded.
  std::size_t longest_id_ = 0;
  std::size_t longest_ascii_id_ = 0; // the same for pure ASCII

  // One cache for each concurrent encode: no lock is held while one is in use.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<word_cache>> caches_;
};

} // namespace troupe::text
