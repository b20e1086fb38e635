// Prompts for real tokenizers, through all text processing: a completion request becomes a plan, its prompt
// tokens, and text again. The first byte picks the tokenizer, the rest is the prompt. For any input,
// tokenizing ends before its deadline, a prompt refused by its size would not have fitted, and a byte-level
// tokenizer decodes its ids to the same bytes.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/plan.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"
#include "tests/unit/text/small_tokenizer.hpp"

namespace {

using namespace troupe;

void require(bool holds) {
  if (!holds)
    std::abort();
}

struct served {
  std::shared_ptr<const openai::text_codec> codec;
  bool keeps_bytes; ///< decodes to what was encoded, except special tokens
};

std::shared_ptr<const openai::text_codec> codec_of(std::shared_ptr<const text::tokenizer> tokenizer) {
  return openai::make_text_codec(std::move(tokenizer), nullptr);
}

const std::vector<served>& all_served() {
  static const std::vector<served> all = [] {
    const std::filesystem::path demo = std::filesystem::path(TROUPE_SOURCE_DIR) / "deploy/demo-model/model";
    auto hostile = text::small_tokenizer();
    hostile["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:a|aa)+c|.";
    auto whole = text::small_tokenizer();
    whole.erase("pre_tokenizer");
    return std::vector<served>{
        {codec_of(text::tokenizer::load(demo)), true},
        {codec_of(text::tokenizer::parse(text::small_tokenizer().dump(), "", "small")), false},
        {codec_of(text::tokenizer::parse(hostile.dump(), "", "hostile")), false},
        {codec_of(text::tokenizer::parse(whole.dump(), "", "whole")), false}};
  }();
  return all;
}

void check_prompt(const served& one, const std::string& prompt, const text::limited_work& limit) {
  openai::request_limits limits;
  limits.max_model_len = 64;
  limits.vocab_size = one.codec->vocab_size();
  openai::completion_request request;
  openai::prompt_input input;
  input.text = prompt;
  request.prompts.push_back(std::move(input));
  const auto tokens = one.codec->encode(prompt, request.options.add_special_tokens);
  require(one.codec->fewest_tokens(prompt) <= tokens.size());
  bool is_planned = false;
  try {
    is_planned = openai::make_plan(std::move(request), *one.codec, limits, 1).prompts[0].tokens == tokens;
    require(is_planned);
  } catch (const openai::api_error& e) {
    require(e.status == 400);
    if (limit.ended_by() != text::limited_work::end::none)
      return;
  }
  require(!is_planned || tokens.size() < limits.max_model_len);
  require(is_planned || tokens.empty() || tokens.size() >= limits.max_model_len);
  const std::string again = one.codec->decode(one.codec->encode(prompt, false), false);
  require(!one.keeps_bytes || again == text::normalize(prompt, text::normal_form::nfc) || again == prompt);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const auto& all = all_served();
  const std::string prompt =
      text::to_valid_utf8({reinterpret_cast<const char*>(data) + 1, size - 1}); // as JSON carries it
  const text::limited_work limit(std::chrono::milliseconds(200), nullptr);
  try {
    check_prompt(all[data[0] % all.size()], prompt, limit);
  } catch (const text::text_error&) { // too expensive, or too long
  }
  return 0;
}
