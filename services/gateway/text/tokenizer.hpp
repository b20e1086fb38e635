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

/// Text to token ids and back, as the model's `tokenizer.json` says: ids equal those of Hugging Face's
/// tokenizers. Immutable once loaded; every member may be called from any thread at once.
class tokenizer {
 public:
  /// Reads `tokenizer.json` and, where present, `tokenizer_config.json` and `special_tokens_map.json` in
  /// @p model_dir.
  /// @throws text_error naming the file and the JSON path of whatever is missing, malformed or unsupported.
  static std::shared_ptr<const tokenizer> load(const std::filesystem::path& model_dir);

  /// The same from memory. @p config_json and @p special_tokens_json may be empty. @p origin names the folder
  /// in errors.
  static std::shared_ptr<const tokenizer> parse(std::string_view tokenizer_json, std::string_view config_json,
                                                std::string_view origin,
                                                std::string_view special_tokens_json = {});

  ~tokenizer();
  tokenizer(const tokenizer&) = delete;
  tokenizer& operator=(const tokenizer&) = delete;

  /// Token ids of @p utf8. Malformed UTF-8 is read as U+FFFD, one for each maximal malformed part.
  /// @p add_special_tokens runs the post-processor, which adds BOS, EOS or whatever the model wants. Special
  /// tokens written out inside the text become their ids either way.
  /// @throws text_error when a text makes a regular expression of the tokenizer exceed its match limits, is
  /// longer than 64 MiB, or takes longer than the thread's limited_work; work_cancelled.
  std::vector<std::int32_t> encode(std::string_view utf8, bool add_special_tokens) const;

  /// A number of ids that encode gives for @p utf8 at least, found without encoding it: its bytes over those
  /// of the longest token, and over how much the normalizer may shorten it. 0 where there is no such bound.
  std::size_t fewest_ids(std::string_view utf8) const;

  /// Text of @p ids, always valid UTF-8. Ids outside the vocabulary stand for nothing.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const;

  /// One past the highest id, added tokens included. A model's embedding may be larger (padding).
  std::int32_t vocab_size() const noexcept;

  /// Id of exactly this vocabulary entry (`Ġthe`, `▁the`, `<|im_end|>`), if there is one.
  std::optional<std::int32_t> token_to_id(std::string_view token) const;

  /// The vocabulary entry itself, not its text; empty for an id outside the vocabulary.
  std::string id_to_token(std::int32_t id) const;

  /// The bytes that this token stands for in the middle of a text (`Ġthe` is " the", `<0xE4>` one byte, a
  /// special token its name). May be part of a UTF-8 character. Empty for an id outside the vocabulary.
  std::string token_bytes(std::int32_t id) const;

  /// token_bytes as valid UTF-8: malformed parts become U+FFFD. What OpenAI's logprobs call `token`.
  std::string token_text(std::int32_t id) const;

  /// Whether the entry is marked special, so that decode leaves it out when told to.
  bool is_special(std::int32_t id) const noexcept;

  /// `bos_token`, `eos_token`, `pad_token` and `unk_token` of tokenizer_config.json and
  /// special_tokens_map.json as ids, where named there and known.
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
