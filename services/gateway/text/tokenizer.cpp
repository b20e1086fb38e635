#include "services/gateway/text/tokenizer.hpp"

#include "services/gateway/text/model_files.hpp"
#include "services/gateway/text/pipeline.hpp"
#include "services/gateway/text/sentencepiece_folder.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tiktoken_folder.hpp"
#include "services/gateway/text/tokenizer_config.hpp"
#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace troupe::text {

namespace {

constexpr std::size_t longest_text = 64UL << 20U;

} // namespace

tokenizer::tokenizer(std::unique_ptr<const pipeline> parts) : parts_(std::move(parts)) {}

tokenizer::~tokenizer() = default;

std::shared_ptr<const tokenizer> tokenizer::load(const std::filesystem::path& model_dir) {
  const auto file = model_dir / "tokenizer.json";
  const auto config = tokenizer_config::load(model_dir);
  if (const auto json = read_text_file(file))
    return make(*json, file.string(), config);
  for (const auto load_other : {load_tiktoken_folder, load_sentencepiece_folder})
    if (auto parts = load_other(model_dir, config))
      return std::shared_ptr<const tokenizer>(new tokenizer(std::move(parts)));
  throw text_error(file.string() + ": no such file");
}

std::shared_ptr<const tokenizer> tokenizer::parse(std::string_view tokenizer_json,
                                                  std::string_view config_json, std::string_view origin,
                                                  std::string_view special_tokens_json,
                                                  std::string_view added_tokens_json) {
  return make(tokenizer_json, (std::filesystem::path(origin) / "tokenizer.json").string(),
              tokenizer_config::parse(config_json, special_tokens_json, origin, added_tokens_json));
}

std::shared_ptr<const tokenizer> tokenizer::make(std::string_view tokenizer_json, const std::string& file,
                                                 const tokenizer_config& config) {
  const auto json = parse_json(tokenizer_json, file);
  return std::shared_ptr<const tokenizer>(
      new tokenizer(std::make_unique<const pipeline>(json_view(json, file), config)));
}

std::vector<std::int32_t> tokenizer::encode(std::string_view utf8, bool add_special_tokens) const {
  if (utf8.size() > longest_text) {
    throw text_error("the text has " + std::to_string(utf8.size()) + " bytes; at most "
                     + std::to_string(longest_text) + " can be tokenized at once");
  }
  const bool valid = scan_utf8(utf8).valid == utf8.size();
  auto ids = valid ? parts_->encode(utf8) : parts_->encode(to_valid_utf8(utf8));
  return add_special_tokens ? parts_->processing().apply(std::move(ids)) : ids;
}

std::size_t tokenizer::fewest_ids(std::string_view utf8) const {
  return parts_->fewest_ids(utf8);
}

std::string tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  decoder_stream stream(parts_->decoding());
  std::string out;
  limited_steps steps(64);
  for (const auto id : ids) {
    steps.step();
    const auto* token = parts_->decoder_token(id);
    if (token != nullptr && !(skip_special_tokens && is_special(id)))
      stream.push(*token, out);
  }
  stream.flush(out);
  return out;
}

std::int32_t tokenizer::vocab_size() const noexcept {
  return std::max(parts_->entries().entries().end_id(), parts_->added().end_id());
}

std::optional<std::int32_t> tokenizer::token_to_id(std::string_view token) const {
  return parts_->id_of(token);
}

std::string tokenizer::id_to_token(std::int32_t id) const {
  if (const auto* added = parts_->added().find(id))
    return added->content;
  const auto* token = parts_->entries().entries().token_of(id);
  return token == nullptr ? std::string() : *token;
}

std::string tokenizer::token_bytes(std::int32_t id) const {
  if (const auto* added = parts_->added().find(id))
    return added->content; // searched in the text as written
  const auto* token = parts_->entries().entries().token_of(id);
  return token == nullptr ? std::string() : parts_->decoding().bytes_of(*token);
}

std::string tokenizer::token_text(std::int32_t id) const {
  return to_valid_utf8(token_bytes(id));
}

const std::vector<std::string>& tokenizer::differences() const noexcept {
  return parts_->added().differences();
}

bool tokenizer::is_special(std::int32_t id) const noexcept {
  const auto* added = parts_->added().find(id);
  return added != nullptr && added->special;
}

std::optional<std::int32_t> tokenizer::bos_id() const noexcept {
  return parts_->named().bos;
}

std::optional<std::int32_t> tokenizer::eos_id() const noexcept {
  return parts_->named().eos;
}

std::optional<std::int32_t> tokenizer::pad_id() const noexcept {
  return parts_->named().pad;
}

std::optional<std::int32_t> tokenizer::unk_id() const noexcept {
  return parts_->named().unk;
}

} // namespace troupe::text
