#include "services/gateway/text/tokenizer_config.hpp"

#include "services/gateway/text/model_files.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

namespace troupe::text {

namespace {

constexpr const char* config_name = "tokenizer_config.json";
constexpr const char* map_name = "special_tokens_map.json";
constexpr const char* older_name = "added_tokens.json";

/// These must be well formed. Other members that end with `_token` may be switches.
constexpr std::array<std::string_view, 4> named = {"bos_token", "eos_token", "pad_token", "unk_token"};

/// The token: a string, or an object with its content.
std::string content_of(const json_view& token) {
  return token.value().is_object() ? token.at("content").string() : token.string();
}

/// A token given as a string, or as an object with flags.
added_token read_token(const json_view& token) {
  added_token out{.content = content_of(token)};
  if (token.value().is_object()) {
    out.single_word = token.boolean_or("single_word", false);
    out.strip_left = token.boolean_or("lstrip", false);
    out.strip_right = token.boolean_or("rstrip", false);
    out.special = token.boolean_or("special", false);
    out.normalized = token.boolean_or("normalized", !out.special);
  }
  return out;
}

/// The special tokens of a file, in transformers' order.
std::vector<added_token> read_named_tokens(const json_view& file) {
  std::vector<added_token> out;
  const auto add = [&](const json_view& token) {
    if (!token.value().is_string() && !token.value().is_object())
      return; // a switch or a number
    auto named_token = read_token(token);
    named_token.special = true;
    named_token.normalized = token.value().is_object() && token.boolean_or("normalized", false);
    out.push_back(std::move(named_token));
  };
  for (const auto* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (file.has(name))
      add(file.at(name));
  for (const auto* name : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!file.has(name))
      continue;
    const auto list = file.at(name);
    if (list.value().is_object())
      for (const auto& [key, value] : list.value().items())
        add(list.at(key));
    else
      for (std::size_t i = 0; i < list.array_size(); ++i)
        add(list.item(i));
  }
  return out;
}

/// The special tokens of one file, as text.
nlohmann::json read_tokens(const json_view& file) {
  auto out = nlohmann::json::object();
  for (const auto& [name, value] : file.value().items()) {
    const bool must = std::find(named.begin(), named.end(), name) != named.end() && !value.is_null();
    if (must || (name.ends_with("_token") && (value.is_string() || value.is_object())))
      out[name] = content_of(file.at(name));
  }
  if (file.has("additional_special_tokens")) {
    const auto list = file.at("additional_special_tokens");
    for (std::size_t i = 0; i < list.array_size(); ++i)
      out["additional_special_tokens"].push_back(content_of(list.item(i)));
  }
  return out;
}

nlohmann::json parse_object(std::string_view text, const std::string& file) {
  if (text.empty())
    return nlohmann::json::object();
  auto json = parse_json(text, file);
  json_view(json, file).expect_object();
  return json;
}

} // namespace

tokenizer_config::tokenizer_config()
    : json_(std::make_shared<const nlohmann::json>(nlohmann::json::object())),
      special_tokens_(json_),
      older_tokens_(json_) {}

tokenizer_config tokenizer_config::load(const std::filesystem::path& model_dir) {
  return parse(read_text_file(model_dir / config_name).value_or(""),
               read_text_file(model_dir / map_name).value_or(""), model_dir.string(),
               read_text_file(model_dir / older_name).value_or(""));
}

tokenizer_config tokenizer_config::parse(std::string_view config_json, std::string_view special_tokens_json,
                                         std::string_view origin, std::string_view added_tokens_json) {
  const std::filesystem::path folder(origin);
  tokenizer_config out;
  out.file_ = (folder / config_name).string();
  out.json_ = std::make_shared<const nlohmann::json>(parse_object(config_json, out.file_));
  auto tokens = read_tokens(out.file());
  const auto map_file = (folder / map_name).string();
  const auto map = parse_object(special_tokens_json, map_file);
  const bool map_is_newer = !out.file().has("added_tokens_decoder");
  const auto more = read_tokens({map, map_file});
  for (const auto& [name, token] : more.items())
    if (map_is_newer || !tokens.contains(name))
      tokens[name] = token;
  out.special_tokens_ = std::make_shared<const nlohmann::json>(std::move(tokens));
  const auto older_file = (folder / older_name).string();
  auto older = parse_object(map_is_newer ? added_tokens_json : "", older_file);
  for (const auto& [content, id] : older.items())
    json_view(id, older_file, "/" + content).token_id();
  out.older_tokens_ = std::make_shared<const nlohmann::json>(std::move(older));
  out.named_tokens_ = read_named_tokens(out.file());
  const auto from_map = map_is_newer ? read_named_tokens({map, map_file}) : std::vector<added_token>{};
  out.named_tokens_.insert(out.named_tokens_.end(), from_map.begin(), from_map.end());
  return out;
}

std::optional<std::string> tokenizer_config::special_token(const std::string& name) const {
  const auto found = special_tokens_->find(name);
  return found == special_tokens_->end() ? std::nullopt : std::optional(found->get<std::string>());
}

std::map<std::int32_t, added_token> tokenizer_config::tokens_by_id() const {
  std::map<std::int32_t, added_token> by_id; // the order in which they are added
  const auto config = file();
  if (config.has("added_tokens_decoder")) {
    const auto list = config.at("added_tokens_decoder");
    list.expect_object();
    for (const auto& [key, value] : list.value().items()) {
      std::int32_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc{} || end != key.data() + key.size())
        list.fail("'" + key + "' is no token id");
      by_id.emplace(id, read_token(list.at(key))).first->second.id = id;
    }
  }
  return by_id;
}

std::vector<added_token>
tokenizer_config::listed_tokens(const std::unordered_set<std::int32_t>& known) const {
  auto by_id = tokens_by_id();
  for (const auto& [content, id] : older_tokens_->items()) {
    if (!known.contains(id.get<std::int32_t>())) {
      added_token token{.content = content};
      token.normalized = true;
      token.id = id.get<std::int32_t>();
      by_id.emplace(id.get<std::int32_t>(), std::move(token));
    }
  }
  std::set<std::string_view> names;
  for (const auto& token : named_tokens_)
    names.insert(token.content);
  std::vector<added_token> out;
  for (const auto& [id, token] : by_id) {
    out.push_back(token);
    if (names.contains(token.content)) {
      out.back().special = true;
      out.back().normalized = token.normalized && file().has("added_tokens_decoder");
    }
  }
  return out;
}

std::optional<tokenizer_config::added_ends> tokenizer_config::ends() const {
  const auto config = file();
  if (!config.has("tokenizer_class") || !(config.has("add_bos_token") || config.has("add_eos_token")))
    return std::nullopt;
  auto name = config.at("tokenizer_class").string();
  if (constexpr std::string_view fast = "Fast"; name.ends_with(fast))
    name.resize(name.size() - fast.size());
  // The classes of transformers that do so, and whether they add BOS when only EOS is configured.
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
