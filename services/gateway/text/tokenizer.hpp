// The tokenizer: text to token ids and back, by the model's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

class pipeline;
class tokenizer_config;

/// Ids equal those of Hugging Face's tokenizers. Immutable once loaded; every member may be called from any
/// thread.
class tokenizer {
 public:
  /// Reads `tokenizer.json` and, if present, `tokenizer_config.json`, `special_tokens_map.json` and
  /// `added_tokens.json` in `model_dir`. Without tokenizer.json, the vocabulary is in tiktoken's
  /// format or in SentencePiece's.
  /// @throws text_error naming the file and the JSON path of what is missing, malformed or unsupported
  static std::shared_ptr<const tokenizer> load(const std::filesystem::path& model_dir);

  /// The same from memory. All but `tokenizer_json` may be empty. `origin` names the folder in errors.
  static std::shared_ptr<const tokenizer> parse(std::string_view tokenizer_json, std::string_view config_json,
                                                std::string_view origin,
                                                std::string_view special_tokens_json = {},
                                                std::string_view added_tokens_json = {});

  ~tokenizer();
  tokenizer(const tokenizer&) = delete;
  tokenizer& operator=(const tokenizer&) = delete;

  /// Token ids of `utf8`. Each maximal malformed part of it counts as one U+FFFD. `add_special_tokens` runs
  /// the post-processor, which adds BOS, EOS or whatever the model wants. Special tokens written out in the
  /// text always become their ids.
  /// @throws text_error  a regular expression exceeds its match limits, the text exceeds 64 MiB, or the time
  /// of the thread's limited_work is over
  /// @throws work_cancelled
  std::vector<std::int32_t> encode(std::string_view utf8, bool add_special_tokens) const;

  /// A lower bound on the number of ids of `utf8`, found without encoding: its bytes over those of the
  /// longest token, and over the normalizer's largest shortening. 0: no bound.
  std::size_t fewest_ids(std::string_view utf8) const;

  /// Text of `ids`, always valid UTF-8. Ids outside the vocabulary are ignored.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const;

  /// One past the highest id, added tokens included. A model's embedding may be larger (padding).
  std::int32_t vocab_size() const noexcept;

  /// Id of exactly this vocabulary entry (`Ġthe`, `▁the`, `<|im_end|>`), if it exists.
  std::optional<std::int32_t> token_to_id(std::string_view token) const;

  /// The vocabulary entry itself, not its text; empty for an id outside the vocabulary.
  std::string id_to_token(std::int32_t id) const;

  /// The bytes of this token in the middle of a text (`Ġthe` is " the", `<0xE4>` one byte, a special token
  /// its name). May be part of a UTF-8 character. Empty for an id outside the vocabulary.
  std::string token_bytes(std::int32_t id) const;

  /// token_bytes as valid UTF-8: malformed parts become U+FFFD. It is the `token` of OpenAI's logprobs.
  std::string token_text(std::int32_t id) const;

  /// Contradictions between tokenizer.json and the folder's other files, a line for each kind; the other
  /// files win, as with transformers.
  const std::vector<std::string>& differences() const noexcept;

  /// Whether the entry is marked special: `skip_special_tokens` makes decode leave it out.
  bool is_special(std::int32_t id) const noexcept;

  /// Ids of `bos_token`, `eos_token`, `pad_token` and `unk_token` of tokenizer_config.json and
  /// special_tokens_map.json, if given there and known.
  std::optional<std::int32_t> bos_id() const noexcept;
  std::optional<std::int32_t> eos_id() const noexcept;
  std::optional<std::int32_t> pad_id() const noexcept;
  std::optional<std::int32_t> unk_id() const noexcept;

 private:
  friend class detokenizer;
  explicit tokenizer(std::unique_ptr<const pipeline> parts);
  static std::shared_ptr<const tokenizer> make(std::string_view tokenizer_json, const std::string& file,
                                               const tokenizer_config& config);

  std::unique_ptr<const pipeline> parts_;
};

} // namespace troupe::text
