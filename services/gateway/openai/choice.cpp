#include "services/gateway/openai/choice.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "services/gateway/openai/request.hpp"

namespace troupe::openai {

std::size_t count_characters(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void append(choice_delta& delta, choice_delta more) {
  delta.text += more.text;
  std::move(more.tokens.begin(), more.tokens.end(), std::back_inserter(delta.tokens));
  delta.token_ids.insert(delta.token_ids.end(), more.token_ids.begin(), more.token_ids.end());
}

choice::choice(const text_codec& codec, const generation_options& options,
               std::span<const std::int32_t> prompt, std::size_t text_offset)
    : options_(options),
      stream_(codec.stream(options.skip_special_tokens, prompt)),
      stops_(options.stop, options.include_stop),
      num_characters_(text_offset) {}

void choice::take_text(const std::string& piece, choice_delta& delta) {
  num_characters_ += count_characters(piece);
  delta.text += stops_.push(piece, num_tokens_ > static_cast<std::uint32_t>(options_.sampling.min_tokens));
  if (stops_.found()) {
    reason_ = finish_reason::stop;
    cause_ = *stops_.found();
  }
}

choice_delta choice::push(const generated_token& token, finish_reason reason) {
  choice_delta delta;
  if (finished())
    return delta;
  ++num_tokens_;
  if (options_.return_token_ids)
    delta.token_ids.push_back(token.token);
  if (options_.logprobs)
    delta.tokens.push_back({token, num_characters_});
  const bool is_stop_token = reason == finish_reason::stop;
  if (!is_stop_token || options_.include_stop)
    take_text(stream_->push(token.token), delta);
  if (reason != finish_reason::none)
    end(reason, is_stop_token ? std::optional{token.token} : std::nullopt, delta);
  return delta;
}

choice_delta choice::finish(finish_reason reason) {
  choice_delta delta;
  end(reason, std::nullopt, delta);
  return delta;
}

void choice::end(finish_reason reason, std::optional<std::int32_t> stop_token, choice_delta& delta) {
  if (!finished())
    take_text(stream_->flush(), delta);
  if (finished())
    return;
  delta.text += stops_.flush();
  reason_ = reason;
  if (!stop_token)
    return;
  const auto& own = options_.stop_token_ids;
  if (std::find(own.begin(), own.end(), *stop_token) != own.end()) {
    cause_ = *stop_token;
  } else if (const auto special = options_.special_stops.find(*stop_token);
             special != options_.special_stops.end()) {
    cause_ = special->second;
    if (options_.include_stop)
      delta.text += special->second;
  }
}

} // namespace troupe::openai
