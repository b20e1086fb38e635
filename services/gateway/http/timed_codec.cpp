#include "services/gateway/http/timed_codec.hpp"

#include <chrono>
#include <utility>

namespace troupe::http {

namespace {

/// Reports its lifetime.
class stopwatch {
 public:
  using teller = void (gateway_metrics::*)(gateway_metrics::seconds);

  stopwatch(gateway_metrics& metrics, teller tell) : metrics_(metrics), tell_(tell) {}

  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

  ~stopwatch() { (metrics_.*tell_)(std::chrono::steady_clock::now() - begin_); }

 private:
  gateway_metrics& metrics_;
  teller tell_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class timed final : public openai::text_codec {
 public:
  timed(std::shared_ptr<const openai::text_codec> inner, std::shared_ptr<gateway_metrics> metrics)
      : inner_(std::move(inner)), metrics_(std::move(metrics)) {}

  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const override {
    const stopwatch running{*metrics_, &gateway_metrics::tokenized};
    return inner_->encode(text, add_special_tokens);
  }

  std::string render(const text::chat_request& request) const override {
    const stopwatch running{*metrics_, &gateway_metrics::rendered};
    return inner_->render(request);
  }

  std::size_t fewest_tokens(std::string_view text) const override { return inner_->fewest_tokens(text); }

  std::string decode(std::span<const std::int32_t> tokens, bool skip_special_tokens) const override {
    return inner_->decode(tokens, skip_special_tokens);
  }

  std::unique_ptr<openai::text_stream> stream(bool skip_special_tokens,
                                              std::span<const std::int32_t> before) const override {
    return inner_->stream(skip_special_tokens, before);
  }

  std::string token_text(std::int32_t token) const override { return inner_->token_text(token); }

  std::string token_bytes(std::int32_t token) const override { return inner_->token_bytes(token); }

  std::string token_entry(std::int32_t token) const override { return inner_->token_entry(token); }

  std::int32_t vocab_size() const override { return inner_->vocab_size(); }

  bool has_chat_template() const override { return inner_->has_chat_template(); }

 private:
  std::shared_ptr<const openai::text_codec> inner_;
  std::shared_ptr<gateway_metrics> metrics_;
};

} // namespace

std::shared_ptr<const openai::text_codec> timed_codec(std::shared_ptr<const openai::text_codec> inner,
                                                      std::shared_ptr<gateway_metrics> metrics) {
  return std::make_shared<timed>(std::move(inner), std::move(metrics));
}

} // namespace troupe::http
