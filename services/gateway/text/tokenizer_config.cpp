#include "services/gateway/text/tokenizer_config.hpp"

#include "services/gateway/text/model_files.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace troupe::text {

namespace {

constexpr const char* config_name = "tokenizer_config.json";
constexpr const char* map_name = "special_tokens_map.json";

/// These must be well formed; other members that end in `_token` may be switches.
constexpr std::array<std::string_view, 4> named = {"bos_token", "eos_token", "pad_token", "unk_token"};

/// A string, or an object with its content.
std::string content_of(const json_view& token) {
  return token.value().is_object() ? token.at("content").string() : token.string();
}

/// The special tokens of one of the files, as text.
nlohmann::json read_tokens(const json_view& file) {
  auto out = nlohmann::json::object();
  for (const auto& [name, value] : file.value().items()) {
    const bool must = std::find(named.begin(), named.end(), name) != named.end() && !value.is_null();
    if (must || (name.ends_with("_token") && (value.is_string() || value.is_object()))) {
      out[name] = content_of(file.at(name));
    }
  }
  if (file.has("additional_special_tokens")) {
    const auto list = file.at("additional_special_tokens");
    for (std::size_t i = 0; i < list.array_size(); ++i) {
      out["additional_special_tokens"].push_back(content_of(list.item(i)));
    }
  }
  return out;
}

nlohmann::json parse_object(std::string_view text, const std::string& file) {
  if (text.empty()) {
    return nlohmann::json::object();
  }
  auto json = parse_json(text, file);
  json_view(json, file).expect_object();
  return json;
}

} // namespace

tokenizer_config::tokenizer_config()
    : json_(std::make_shared<const nlohmann::json>(nlohmann::json::object())), special_tokens_(json_) {}

tokenizer_config tokenizer_config::load(const std::filesystem::path& model_dir) {
  return parse(read_text_file(model_dir / config_name).value_or(""),
               read_text_file(model_dir / map_name).value_or(""), model_dir.string());
}

tokenizer_config tokenizer_config::parse(std::string_view config_json, std::string_view special_tokens_json,
                                         std::string_view origin) {
  const std::filesystem::path folder(origin);
  tokenizer_config out;
  out.file_ = (folder / config_name).string();
  out.json_ = std::make_shared<const nlohmann::json>(parse_object(config_json, out.file_));
  auto tokens = read_tokens(out.file());
  const auto map_file = (folder / map_name).string();
  const auto map = parse_object(special_tokens_json, map_file);
  const bool map_is_newer = !out.file().has("added_tokens_decoder");
  const auto more = read_tokens({map, map_file});
  for (const auto& [name, token] : more.items()) {
    if (map_is_newer || !tokens.contains(name)) {
      tokens[name] = token;
    }
  }
  out.special_tokens_ = std::make_shared<const nlohmann::json>(std::move(tokens));
  return out;
}

std::optional<std::string> tokenizer_config::special_token(const std::string& name) const {
  const auto found = special_tokens_->find(name);
  return found == special_tokens_->end() ? std::nullopt : std::optional(found->get<std::string>());
}

std::optional<tokenizer_config::added_ends> tokenizer_config::ends() const {
  const auto config = file();
  if (!config.has("tokenizer_class") || !(config.has("add_bos_token") || config.has("add_eos_token"))) {
    return std::nullopt;
  }
  auto name = config.at("tokenizer_class").string();
  if (constexpr std::string_view fast = "Fast"; name.ends_with(fast)) {
    name.resize(name.size() - fast.size());
  }
  // The classes of transformers that do so, and whether they add BOS where only EOS is spoken of.
  constexpr std::pair<std::string_view, bool> classes[] = {{"LlamaTokenizer", true},
                                                           {"CodeLlamaTokenizer", true},
                                                           {"GemmaTokenizer", true},
                                                           {"CohereTokenizer", true},
                                                           {"GPTNeoXTokenizer", false}};
  for (const auto& [known, adds_bos] : classes) {
    if (name == known) {
      return added_ends{config.boolean_or("add_bos_token", adds_bos),
                        config.boolean_or("add_eos_token", false)};
    }
  }
  return std::nullopt;
}

} // namespace troupe::text
