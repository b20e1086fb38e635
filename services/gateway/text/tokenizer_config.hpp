#pragma once

#include "services/gateway/text/json_view.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::text {

/// What tokenizer_config.json and special_tokens_map.json say, put together as transformers does: a member
/// that tokenizer_config.json lacks comes from the other file, which is also the newer one of the two where
/// tokenizer_config.json is from before `added_tokens_decoder`.
class tokenizer_config {
 public:
  /// Neither file.
  tokenizer_config();

  /// Reads what there is of the two files. @throws text_error naming file and JSON path of what is malformed.
  static tokenizer_config load(const std::filesystem::path& model_dir);

  /// The same from memory; an empty text is a file that is not there. @p origin names the folder in errors.
  static tokenizer_config parse(std::string_view config_json, std::string_view special_tokens_json,
                                std::string_view origin);

  /// tokenizer_config.json itself: an object, empty where there is no such file.
  json_view file() const { return {*json_, file_}; }

  /// The text of `bos_token`, `eos_token` and so on, where it is named.
  std::optional<std::string> special_token(const std::string& name) const;

  /// All of them by name, and `additional_special_tokens`: what chat templates may use.
  const nlohmann::json& special_tokens() const noexcept { return *special_tokens_; }

  /// Which ends of a text a tokenizer adds its special tokens to.
  struct added_ends {
    bool bos = false;
    bool eos = false;
  };

  /// `add_bos_token` and `add_eos_token`, where they are said and the tokenizer's class makes its
  /// post-processor of them, whatever tokenizer.json says.
  std::optional<added_ends> ends() const;

 private:
  // Pointers, so that users of this header need not compile the library. Copies share the values, which do
  // not change.
  std::shared_ptr<const nlohmann::json> json_;
  std::shared_ptr<const nlohmann::json> special_tokens_;
  std::string file_ = "tokenizer_config.json";
};

} // namespace troupe::text
