#include "services/gateway/text/tiktoken_folder.hpp"

#include "services/gateway/text/byte_alphabet.hpp"
#include "services/gateway/text/long_runs.hpp"
#include "services/gateway/text/model_files.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tiktoken_file.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::text {

namespace {

constexpr const char* kimi_pattern =
    R"([\p{Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* hunyuan_pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                        R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The special tokens that Kimi's class has where the folder lists none.
std::string kimi_special(std::size_t id, std::size_t /*index*/) {
  return "<|reserved_token_" + std::to_string(id) + "|>";
}

std::string hunyuan_special(std::size_t /*id*/, std::size_t index) {
  constexpr const char* first[] = {"<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"};
  return index < std::size(first) ? first[index]
                                  : "<|extra_" + std::to_string(index - std::size(first)) + "|>";
}

/// What a class does beyond the BPE of its file.
struct tokenizer_class {
  const char* name;
  const char* file;
  const char* pattern;
  std::size_t specials; ///< this many ids after the file's
  std::string (*special)(std::size_t id, std::size_t index);
  bool unnamed_are_special; ///< tokens that the folder does not list are left out of texts too
  bool composes;            ///< NFC first
  bool cuts_long_runs;
};

constexpr tokenizer_class known_classes[] = {
    {.name = "TikTokenTokenizer", // Kimi-K2, Moonlight
     .file = "tiktoken.model",
     .pattern = kimi_pattern,
     .specials = 256,
     .special = kimi_special,
     .unnamed_are_special = false,
     .composes = false,
     .cuts_long_runs = true},
    {.name = "HYTokenizer", // Hunyuan
     .file = "hy.tiktoken",
     .pattern = hunyuan_pattern,
     .specials = 210,
     .special = hunyuan_special,
     .unnamed_are_special = true,
     .composes = true,
     .cuts_long_runs = false},
};

const tokenizer_class& find_class(const std::string& vocabulary, const tokenizer_config& config) {
  const auto file = config.file();
  const auto name = file.string_or("tokenizer_class", "");
  for (const auto& known : known_classes)
    if (name == known.name)
      return known;
  std::string names;
  for (const auto& known : known_classes)
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  throw text_error(vocabulary + ": how texts are cut for this vocabulary is written in the Python of "
                   + (name.empty() ? "a class that " + file.file() + " does not name (tokenizer_class)"
                                   : "tokenizer_class '" + name + "'")
                   + "; only that of " + names + " is known");
}

/// The special tokens as tokenizer.json has them: the folder's list, and the class's own for ids not in it.
nlohmann::json special_tokens(const tokenizer_class& kind, std::size_t first,
                              const tokenizer_config& config) {
  auto listed = config.tokens_by_id();
  const auto list = config.file();
  for (const auto& [id, token] : listed) {
    const auto end = first + kind.specials;
    if (id < 0 || static_cast<std::size_t>(id) < first || static_cast<std::size_t>(id) >= end) {
      list.at("added_tokens_decoder")
          .fail("'" + token.content + "' has id " + std::to_string(id) + "; after the "
                + std::to_string(first) + " tokens of " + kind.file + ", " + kind.name
                + " has special ones up to " + std::to_string(end - 1));
    }
  }
  auto out = nlohmann::json::array();
  std::set<std::string> contents;
  for (std::size_t index = 0; index < kind.specials; ++index) {
    const auto id = first + index;
    const auto found = listed.find(static_cast<std::int32_t>(id));
    const auto token = found != listed.end() ? found->second
                                             : added_token{.content = kind.special(id, index),
                                                           .special = kind.unnamed_are_special};
    if (!contents.insert(token.content).second)
      list.fail("the special token '" + token.content + "' has two ids");
    out.push_back({{"id", id},
                   {"content", token.content},
                   {"single_word", token.single_word},
                   {"lstrip", token.strip_left},
                   {"rstrip", token.strip_right},
                   {"normalized", token.normalized},
                   {"special", token.special}});
  }
  for (const auto& token : config.named_tokens())
    if (!contents.contains(token.content))
      list.fail("'" + token.content + "' is none of the special tokens of " + kind.name);
  return out;
}

/// GPT-2's byte alphabet, as in byte-level models of tokenizer.json.
std::unique_ptr<const model> make_byte_model(const std::vector<std::string>& tokens) {
  ranked_entries list{.entries = {}, .whole_word_first = true};
  list.entries.reserve(tokens.size());
  for (const auto& bytes : tokens) {
    auto& entry = list.entries.emplace_back();
    append_byte_level(entry.token, bytes);
    entry.rank = static_cast<std::uint32_t>(list.entries.size() - 1);
  }
  return make_ranked_bpe_model(std::move(list));
}

std::unique_ptr<const pre_tokenizer> make_cuts(const tokenizer_class& kind) {
  constexpr std::size_t longest_run = 25'000;
  constexpr std::size_t longest_part = 400'000;
  std::vector<std::unique_ptr<const pre_tokenizer>> steps;
  if (kind.cuts_long_runs)
    steps.push_back(make_long_run_cuts(longest_run, longest_part));
  const nlohmann::json split{
      {"type", "Split"}, {"pattern", {{"Regex", kind.pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const nlohmann::json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  for (const auto* step : {&split, &bytes})
    steps.push_back(make_pre_tokenizer({*step, kind.name}));
  return make_sequence(std::move(steps));
}

} // namespace

std::unique_ptr<const pipeline> load_tiktoken_folder(const std::filesystem::path& model_dir,
                                                     const tokenizer_config& config) {
  for (const auto* file : {"tiktoken.model", "hy.tiktoken"}) {
    const auto path = (model_dir / file).string();
    const auto text = read_text_file(path);
    if (!text)
      continue;
    const auto& kind = find_class(path, config);
    const auto tokens = read_tiktoken(*text, path);
    encoding_steps steps{.pre_tokenize = make_cuts(kind), .encode = make_byte_model(tokens)};
    if (kind.composes)
      steps.normalize = make_normalizer({nlohmann::json{{"type", "NFC"}}, kind.name});
    const nlohmann::json rest{{"added_tokens", special_tokens(kind, tokens.size(), config)},
                              {"decoder", {{"type", "ByteLevel"}}}};
    return std::make_unique<const pipeline>(std::move(steps), json_view(rest, path), config,
                                            added_tokens::ids::as_listed);
  }
  return nullptr;
}

} // namespace troupe::text
