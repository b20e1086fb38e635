// The configuration files beside tokenizer.json: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json.
#pragma once

#include "services/gateway/text/added_token.hpp"
#include "services/gateway/text/json_view.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace troupe::text {

/// The files' settings, merged as transformers does. tokenizer_config.json wins over special_tokens_map.json,
/// except when it predates `added_tokens_decoder`.
class tokenizer_config {
 public:
  /// No files.
  tokenizer_config();

  /// Reads those of the files that exist.
  /// @throws text_error naming file and JSON path of the fault
  static tokenizer_config load(const std::filesystem::path& model_dir);

  /// The same from memory; an empty text is a missing file. `origin` names the folder in errors.
  static tokenizer_config parse(std::string_view config_json, std::string_view special_tokens_json,
                                std::string_view origin, std::string_view added_tokens_json = {});

  /// tokenizer_config.json itself, an object; empty when the file is missing.
  json_view file() const { return {*json_, file_}; }

  /// The text of `bos_token`, `eos_token` and so on, if given.
  std::optional<std::string> special_token(const std::string& name) const;

  /// All special tokens by name, and `additional_special_tokens`: the variables of chat templates.
  const nlohmann::json& special_tokens() const noexcept { return *special_tokens_; }

  /// The tokens of `added_tokens_decoder` by id.
  std::map<std::int32_t, added_token> tokens_by_id() const;

  /// The tokens of `added_tokens_decoder` by id; in an older folder without that member, those of
  /// added_tokens.json. Their flags win over tokenizer.json's.
  /// @param known  ids of tokenizer.json's added tokens, which win over those of added_tokens.json
  std::vector<added_token> listed_tokens(const std::unordered_set<std::int32_t>& known) const;

  /// The special tokens that are given by name (`eos_token`, `additional_special_tokens`, …). Each is an
  /// added token, even if no file lists it.
  const std::vector<added_token>& named_tokens() const noexcept { return named_tokens_; }

  /// The ends of a text at which a tokenizer adds its special tokens.
  struct added_ends {
    bool bos = false;
    bool eos = false;
  };

  /// `add_bos_token` and `add_eos_token`, if given and the tokenizer's class builds its post-processor from
  /// them. They win over tokenizer.json.
  std::optional<added_ends> ends() const;

 private:
  // Pointers, so that users of this header need not compile the library. Copies share the immutable values.
  std::shared_ptr<const nlohmann::json> json_;
  std::shared_ptr<const nlohmann::json> special_tokens_;
  std::shared_ptr<const nlohmann::json> older_tokens_; // of added_tokens.json: content to id
  std::vector<added_token> named_tokens_;
  std::string file_ = "tokenizer_config.json";
};

} // namespace troupe::text
