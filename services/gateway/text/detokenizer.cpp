#include "services/gateway/text/detokenizer.hpp"

#include "services/gateway/text/pipeline.hpp"
#include "services/gateway/text/tokenizer.hpp"

#include <utility>

namespace troupe::text {

detokenizer::detokenizer(std::shared_ptr<const tokenizer> source, bool skip_special_tokens)
    : source_(std::move(source)),
      stream_(std::make_unique<decoder_stream>(source_->parts_->decoding())),
      skip_special_tokens_(skip_special_tokens) {}

detokenizer::~detokenizer() = default;
detokenizer::detokenizer(detokenizer&&) noexcept = default;
detokenizer& detokenizer::operator=(detokenizer&&) noexcept = default;

std::string detokenizer::push(std::int32_t id) {
  std::string out;
  const auto* token = source_->parts_->decoder_token(id);
  if (token != nullptr && !(skip_special_tokens_ && source_->is_special(id))) {
    stream_->push(*token, out);
  }
  return out;
}

std::string detokenizer::flush() {
  std::string out;
  stream_->flush(out);
  return out;
}

} // namespace troupe::text
