#include "services/gateway/text/pipeline.hpp"

#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace troupe::text {

namespace {

std::size_t count_characters(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

encoding_steps read_steps(const json_view& json) {
  return {json.has("normalizer") ? make_normalizer(json.at("normalizer")) : nullptr,
          json.has("pre_tokenizer") ? make_pre_tokenizer(json.at("pre_tokenizer")) : nullptr,
          make_model(json.at("model"))};
}

} // namespace

pipeline::pipeline(const json_view& json, const tokenizer_config& config)
    : pipeline(read_steps(json), json, config, added_tokens::ids::of_places) {}

pipeline::pipeline(encoding_steps steps, const json_view& json, const tokenizer_config& config,
                   added_tokens::ids from)
    : normalizer_(std::move(steps.normalize)),
      pre_tokenizer_(std::move(steps.pre_tokenize)),
      model_(std::move(steps.encode)),
      added_(json, config, model_->entries(), normalizer_.get(), from),
      post_(json.has("post_processor") ? post_processor(json.at("post_processor")) : post_processor()),
      decoder_(json.has("decoder") ? decoder(json.at("decoder")) : decoder()) {
  const auto id_named = [&](const char* name) -> std::optional<std::int32_t> {
    const auto token = config.special_token(name);
    return token ? id_of(*token) : std::nullopt;
  };
  named_ = {.bos = id_named("bos_token"),
            .eos = id_named("eos_token"),
            .pad = id_named("pad_token"),
            .unk = id_named("unk_token")};
  add_ends(config);
  const auto longest = longest_id();
  bool ascii = false;
  longest_id_ = longest * (normalizer_ ? normalizer_->most_shrinkage(ascii) : 1);
  ascii = true;
  longest_ascii_id_ = longest * (normalizer_ ? normalizer_->most_shrinkage(ascii) : 1);
}

/// Most bytes of a normalized text that one id stands for; 0: unbounded.
std::size_t pipeline::longest_id() const {
  const bool byte_level =
      (pre_tokenizer_ && pre_tokenizer_->is_byte_level()) || (normalizer_ && normalizer_->is_byte_level());
  const auto longest_added = added_.longest();
  if (!longest_added || (pre_tokenizer_ && !pre_tokenizer_->keeps_all()) || !model_->covers_all(byte_level)
      || !post_.keeps_sequence())
    return 0;
  constexpr std::size_t longest_character = 4; // an unknown one is an id
  // A character of the byte-level alphabet stands for one byte, although it may have two.
  const auto longest_entry = model_->entries().longest(
      [byte_level](std::string_view entry) { return byte_level ? count_characters(entry) : entry.size(); });
  return std::max({longest_character, longest_entry, *longest_added});
}

std::size_t pipeline::fewest_ids(std::string_view text) const {
  const bool ascii =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  const auto longest = ascii ? longest_ascii_id_ : longest_id_;
  return longest == 0 ? 0 : (text.size() + longest - 1) / longest;
}

/// BOS and EOS of tokenizer_config.json replace tokenizer.json's post-processor.
void pipeline::add_ends(const tokenizer_config& config) {
  const auto wanted = config.ends();
  if (!wanted)
    return;
  const auto id_of_end = [&](bool added, const char* token,
                             std::optional<std::int32_t> id) -> std::optional<std::int32_t> {
    const auto name = config.special_token(token);
    if (!added || !name) // no such token to add
      return std::nullopt;
    if (!id) {
      const auto file = config.file();
      const auto said = "add_" + std::string(token);
      const auto why = file.has(said)
                           ? said + " is true"
                           : std::string(token) + " is added by " + file.at("tokenizer_class").string();
      file.fail(why + ", and '" + *name + "' is not in the vocabulary");
    }
    return id;
  };
  post_ = post_processor(id_of_end(wanted->bos, "bos_token", named_.bos),
                         id_of_end(wanted->eos, "eos_token", named_.eos));
}

std::optional<std::int32_t> pipeline::id_of(std::string_view token) const {
  const auto added = added_.id_of(token);
  return added ? added : model_->entries().id_of(token);
}

const std::string* pipeline::decoder_token(std::int32_t id) const noexcept {
  const auto* added = added_.find(id);
  return added != nullptr ? &added->decoded : model_->entries().token_of(id);
}

std::unique_ptr<word_cache> pipeline::take_cache() const {
  {
    const std::scoped_lock lock(mutex_);
    if (!caches_.empty()) {
      auto cache = std::move(caches_.back());
      caches_.pop_back();
      return cache;
    }
  }
  return std::make_unique<word_cache>();
}

void pipeline::give_back(std::unique_ptr<word_cache> cache) const {
  constexpr std::size_t most_caches = 16;
  const std::scoped_lock lock(mutex_);
  if (caches_.size() < most_caches)
    caches_.push_back(std::move(cache));
}

void pipeline::encode_piece(std::string_view piece, word_cache& cache, std::vector<std::int32_t>& ids) const {
  if (piece.size() > word_cache::longest_word) {
    model_->encode(piece, ids);
    return;
  }
  if (cache.append(piece, ids))
    return;
  const auto before = ids.size();
  model_->encode(piece, ids);
  cache.remember(piece, ids.data() + before, ids.size() - before);
}

void pipeline::encode_normalized(std::string text, std::size_t from_first, word_cache& cache,
                                 std::vector<std::int32_t>& ids) const {
  pieces cut;
  cut.text = std::move(text);
  const piece whole{0, cut.text.size(), from_first, piece::to_encode};
  cut.list = added_.split_normalized(cut.text);
  for (auto& p : cut.list)
    if (p.id == piece::to_encode)
      p = part_of(whole, p.begin, p.end);
  if (pre_tokenizer_)
    pre_tokenizer_->apply(cut);
  limited_steps steps(64); // a step is a piece, mostly a word
  for (const auto& p : cut.list) {
    steps.step();
    if (p.id != piece::to_encode)
      ids.push_back(p.id);
    else if (p.begin < p.end)
      encode_piece(cut.view(p), cache, ids);
  }
}

std::vector<std::int32_t> pipeline::encode(std::string_view text) const {
  // Returns the cache even if the encoding throws.
  const auto give = [this](word_cache* used) { give_back(std::unique_ptr<word_cache>(used)); };
  const std::unique_ptr<word_cache, decltype(give)> cache(take_cache().release(), give);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3);
  for (const auto& p : added_.split_raw(text)) {
    if (p.id != piece::to_encode) {
      ids.push_back(p.id);
      continue;
    }
    std::string part(text.substr(p.begin, p.end - p.begin));
    std::size_t from_first = p.begin == 0 ? utf8_size(part.front()) : 0;
    if (normalizer_)
      normalizer_->apply(part, from_first);
    encode_normalized(std::move(part), from_first, *cache, ids);
  }
  return ids;
}

} // namespace troupe::text
