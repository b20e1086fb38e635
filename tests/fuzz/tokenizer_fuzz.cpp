// Untrusted tokenizer.json files, and texts for them. The input is a text, a NUL, and a tokenizer.json;
// without a NUL it is a text for a fixed tokenizer with every kind of step; after a byte 1 or 2 it is a
// vocabulary of SentencePiece or tiktoken, which is read. Whatever loads must encode
// without a fault and before its deadline, to at least the promised number of ids, and decode incrementally
// to the text of a single decode.

#include "services/gateway/text/detokenizer.hpp"
#include "services/gateway/text/sentencepiece_file.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tiktoken_file.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace troupe::text;

constexpr std::string_view fixed_tokenizer = R"({
  "added_tokens": [
    {"id": 20, "content": "<s>", "single_word": false, "lstrip": true, "rstrip": true, "normalized": false, "special": true},
    {"id": 21, "content": "wo", "single_word": true, "lstrip": false, "rstrip": false, "normalized": true, "special": false}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Nmt"}, {"type": "Lowercase"},
    {"type": "Strip", "strip_left": true, "strip_right": true}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+(?!\\S)|\\s+"},
     "behavior": "Isolated", "invert": false},
    {"type": "Punctuation"}, {"type": "Digits", "individual_digits": true},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}]},
  "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "▁"}]},
  "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["<unk>", 0], ["▁", -2], ["a", -3], ["b", -3],
    ["ab", -3.5], ["wo", -4], ["▁wo", -4], ["é", -5], ["<0xC3>", -9], ["<0x28>", -9], ["<0xE4>", -9]]}
})";

void exercise(const std::shared_ptr<const tokenizer>& t, std::string_view text) {
  const limited_work limit(std::chrono::seconds(2), nullptr); // libFuzzer's own is 30 s
  const auto ids = t->encode(text, true);
  if (t->fewest_ids(text) > ids.size())
    std::abort();
  for (const bool skip : {false, true}) {
    const auto whole = t->decode(ids, skip);
    detokenizer stream(t, skip);
    std::string joined;
    for (const auto id : ids) {
      const auto piece = stream.push(id);
      if (scan_utf8(piece).valid != piece.size())
        std::abort();
      joined += piece;
    }
    joined += stream.flush();
    if (joined != whole || scan_utf8(whole).valid != whole.size())
      std::abort();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static const auto fixed = tokenizer::parse(fixed_tokenizer, "", "fixed");
  const auto end = input.find('\0');
  try {
    if (input.starts_with('\1'))
      read_sentencepiece(input.substr(1), "fuzzed");
    else if (input.starts_with('\2'))
      read_tiktoken(input.substr(1), "fuzzed");
    else if (end == std::string_view::npos)
      exercise(fixed, input);
    else
      exercise(tokenizer::parse(input.substr(end + 1), "", "fuzzed"), input.substr(0, end));
  } catch (const text_error&) { // a refusal is one clear error
  }
  return 0;
}
