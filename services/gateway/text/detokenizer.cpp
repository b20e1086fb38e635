#include "services/gateway/text/detokenizer.hpp"

#include "services/gateway/text/pipeline.hpp"
#include "services/gateway/text/tokenizer.hpp"

#include <algorithm>
#include <utility>

namespace troupe::text {

detokenizer::detokenizer(std::shared_ptr<const tokenizer> source, bool skip_special_tokens,
                         std::span<const std::int32_t> before)
    : source_(std::move(source)), skip_special_tokens_(skip_special_tokens) {
  const bool continues =
      std::any_of(before.rbegin(), before.rend(), [&](std::int32_t id) { return entry_of(id) != nullptr; });
  stream_ = std::make_unique<decoder_stream>(source_->parts_->decoding(), continues);
}

detokenizer::~detokenizer() = default;
detokenizer::detokenizer(detokenizer&&) noexcept = default;
detokenizer& detokenizer::operator=(detokenizer&&) noexcept = default;

const std::string* detokenizer::entry_of(std::int32_t id) const {
  return skip_special_tokens_ && source_->is_special(id) ? nullptr : source_->parts_->decoder_token(id);
}

std::string detokenizer::push(std::int32_t id) {
  std::string out;
  if (const auto* entry = entry_of(id))
    stream_->push(*entry, out);
  return out;
}

std::string detokenizer::flush() {
  std::string out;
  stream_->flush(out);
  return out;
}

} // namespace troupe::text
