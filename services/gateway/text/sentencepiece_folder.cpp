#include "services/gateway/text/sentencepiece_folder.hpp"

#include "services/gateway/text/base64.hpp"
#include "services/gateway/text/model_files.hpp"
#include "services/gateway/text/sentencepiece_file.hpp"
#include "services/gateway/text/text_error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::text {

namespace {

constexpr const char* blank_mark = "▁";

/// What a class of transformers, or of the folder's own, does beyond the model.
struct sentencepiece_class {
  const char* name;
  bool adds_bos;   ///< unless add_bos_token says otherwise
  bool has_legacy; ///< `legacy: false` gives only the start of a text a blank, not what follows added tokens
};

constexpr sentencepiece_class sentencepiece_classes[] = {
    {.name = "LlamaTokenizer", .adds_bos = true, .has_legacy = true},
    {.name = "Ernie4_5_Tokenizer", .adds_bos = false, .has_legacy = false},
};

const sentencepiece_class& class_of(const std::string& model_file, const tokenizer_config& config) {
  const auto file = config.file();
  auto name = file.string_or("tokenizer_class", "");
  if (name == "LlamaTokenizerFast")
    name = "LlamaTokenizer";
  std::string names;
  for (const auto& known : sentencepiece_classes) {
    if (name == known.name)
      return known;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  throw text_error(model_file + ": without tokenizer.json, the tokenizer_class of " + file.file()
                   + " must be one of " + names + (name.empty() ? "" : ", not '" + name + "'"));
}

void refuse_other_models(const sentencepiece_model& model, const std::string& file) {
  constexpr std::uint64_t bpe = 2;
  const char* why = model.model_type != bpe ? "the model is no BPE (model_type is not 2)"
                    : model.whitespace_is_suffix
                        ? "blanks belong to the word before them (treat_whitespace_as_suffix)"
                    : !model.escape_whitespaces ? "blanks are not marked (escape_whitespaces is false)"
                                                : nullptr;
  if (why == nullptr)
    for (const auto& piece : model.pieces)
      if (piece.what == sentencepiece_model::kind::unused)
        why = "it has unused pieces";
  if (why != nullptr)
    throw text_error(file + ": not supported: " + why);
}

/// The best scores merge first.
ranked_entries entries_of(const sentencepiece_model& model) {
  using kind = sentencepiece_model::kind;
  std::vector<float> scores;
  for (const auto& piece : model.pieces)
    if (piece.what == kind::normal)
      scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  ranked_entries out{.entries = {}, .fuse_unknown = true, .byte_fallback = model.byte_fallback};
  for (const auto& piece : model.pieces) {
    auto& entry = out.entries.emplace_back();
    entry.token = piece.text;
    entry.whole = piece.what == kind::user_defined;
    if (piece.what == kind::normal) {
      entry.rank = static_cast<std::uint32_t>(
          std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) - scores.begin());
    }
    if (piece.what == kind::unknown)
      out.unknown = piece.text;
  }
  return out;
}

/// Puts `token` before every text, if it is a piece.
nlohmann::json begin_of_text(const sentencepiece_model& model, const std::string& token) {
  const auto found = std::find_if(model.pieces.begin(), model.pieces.end(),
                                  [&](const auto& piece) { return piece.text == token; });
  if (found == model.pieces.end())
    return nullptr;
  const auto id = static_cast<std::size_t>(found - model.pieces.begin());
  const nlohmann::json place{{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  const nlohmann::json sequence{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"type", "TemplateProcessing"},
          {"single", nlohmann::json::array({place, sequence})},
          {"special_tokens",
           {{token,
             {{"id", token},
              {"ids", nlohmann::json::array({id})},
              {"tokens", nlohmann::json::array({token})}}}}}};
}

nlohmann::json replace(nlohmann::json pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}};
}

} // namespace

std::unique_ptr<const pipeline> load_sentencepiece_folder(const std::filesystem::path& model_dir,
                                                          const tokenizer_config& config) {
  const auto path = (model_dir / "tokenizer.model").string();
  const auto bytes = read_text_file(path);
  if (!bytes)
    return nullptr;
  const auto& kind = class_of(path, config);
  const auto model = read_sentencepiece(*bytes, path);
  refuse_other_models(model, path);

  const bool only_at_start = kind.has_legacy && !config.file().boolean_or("legacy", true);
  const bool prefixed = config.file().boolean_or("add_prefix_space", true) && model.add_dummy_prefix;
  auto normalizers = nlohmann::json::array();
  if (!model.charsmap.empty())
    normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(model.charsmap)}});
  if (model.remove_extra_whitespaces) {
    normalizers.push_back(replace({{"Regex", "\\A +|[ ▁]+\\z"}}, ""));
    normalizers.push_back(replace({{"Regex", " {2,}"}}, " "));
  }
  if (prefixed && !only_at_start)
    normalizers.push_back({{"type", "Prepend"}, {"prepend", blank_mark}});
  normalizers.push_back(replace({{"String", " "}}, blank_mark));
  const nlohmann::json normalize{{"type", "Sequence"}, {"normalizers", normalizers}};

  auto decoders = nlohmann::json::array(
      {replace({{"String", blank_mark}}, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (prefixed)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}});
  nlohmann::json rest{{"decoder", {{"type", "Sequence"}, {"decoders", decoders}}}};

  encoding_steps steps;
  steps.normalize = make_normalizer({normalize, path});
  if (prefixed && only_at_start) {
    const nlohmann::json metaspace{
        {"type", "Metaspace"}, {"replacement", blank_mark}, {"prepend_scheme", "first"}, {"split", false}};
    steps.pre_tokenize = make_pre_tokenizer({metaspace, path});
  }
  try {
    steps.encode = make_ranked_bpe_model(entries_of(model));
  } catch (const text_error& e) {
    throw text_error(path + ": " + e.what());
  }
  if (kind.adds_bos && !config.ends())
    rest["post_processor"] = begin_of_text(model, config.special_token("bos_token").value_or("<s>"));
  return std::make_unique<const pipeline>(std::move(steps), json_view(rest, path), config,
                                          added_tokens::ids::as_listed);
}

} // namespace troupe::text
