#include "services/gateway/openai/text_codec.hpp"

#include <utility>

#include "services/gateway/text/detokenizer.hpp"
#include "services/gateway/text/tokenizer.hpp"

namespace troupe::openai {

namespace {

class tokenizer_stream final : public text_stream {
 public:
  tokenizer_stream(std::shared_ptr<const text::tokenizer> source, bool skip_special_tokens,
                   std::span<const std::int32_t> before)
      : detokenizer_(std::move(source), skip_special_tokens, before) {}

  std::string push(std::int32_t token) override { return detokenizer_.push(token); }

  std::string flush() override { return detokenizer_.flush(); }

 private:
  text::detokenizer detokenizer_;
};

class tokenizer_codec final : public text_codec {
 public:
  tokenizer_codec(std::shared_ptr<const text::tokenizer> tokenizer,
                  std::shared_ptr<const text::chat_template> chat_template)
      : tokenizer_(std::move(tokenizer)), template_(std::move(chat_template)) {}

  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const override {
    return tokenizer_->encode(text, add_special_tokens);
  }

  std::size_t fewest_tokens(std::string_view text) const override { return tokenizer_->fewest_ids(text); }

  std::string decode(std::span<const std::int32_t> tokens, bool skip_special_tokens) const override {
    return tokenizer_->decode(tokens, skip_special_tokens);
  }

  std::unique_ptr<text_stream> stream(bool skip_special_tokens,
                                      std::span<const std::int32_t> before) const override {
    return std::make_unique<tokenizer_stream>(tokenizer_, skip_special_tokens, before);
  }

  std::string token_text(std::int32_t token) const override { return tokenizer_->token_text(token); }

  std::string token_bytes(std::int32_t token) const override { return tokenizer_->token_bytes(token); }

  std::string token_entry(std::int32_t token) const override { return tokenizer_->id_to_token(token); }

  std::int32_t vocab_size() const override { return tokenizer_->vocab_size(); }

  bool has_chat_template() const override { return template_ != nullptr && template_->available(); }

  std::string render(const text::chat_request& request) const override { return template_->render(request); }

 private:
  std::shared_ptr<const text::tokenizer> tokenizer_;
  std::shared_ptr<const text::chat_template> template_;
};

} // namespace

std::shared_ptr<const text_codec> make_text_codec(std::shared_ptr<const text::tokenizer> tokenizer,
                                                  std::shared_ptr<const text::chat_template> chat_template) {
  return std::make_shared<tokenizer_codec>(std::move(tokenizer), std::move(chat_template));
}

} // namespace troupe::openai
