#include "services/gateway/openai/choice.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "services/gateway/openai/request.hpp"

namespace troupe::openai {

size_t count_characters(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void append(choice_delta& delta, choice_delta more) {
  delta.text += more.text;
  std::move(more.tokens.begin(), more.tokens.end(), std::back_inserter(delta.tokens));
  delta.token_ids.insert(delta.token_ids.end(), more.token_ids.begin(), more.token_ids.end());
}

choice::choice(const text_codec& codec, const generation_options& options, std::span<const int32_t> prompt,
               size_t text_offset)
    : options_(options),
      stream_(codec.stream(options.skip_special_tokens, prompt)),
      stops_(options.stop, options.include_stop),
      produced_characters_(text_offset) {}

void choice::take_text(const std::string& piece, bool may_stop, choice_delta& delta) {
  produced_bytes_ += piece.size();
  produced_characters_ += count_characters(piece);
  delta.text += stops_.push(piece, may_stop);
  if (stops_.found()) {
    reason_ = finish_reason::stop;
    cause_ = *stops_.found();
  }
}

void choice::release_tokens(choice_delta& delta) {
  const size_t released = stops_.released();
  while (!pending_.empty()) {
    pending_token& next = pending_.front();
    // Once all text is out, what begins behind it is no part of the answer.
    const bool textless = next.end == next.begin && next.begin == released;
    const bool out = finished() ? next.begin < released || textless : next.end <= released;
    if (!out)
      break;
    delta.tokens.push_back(std::move(next.placed));
    pending_.pop_front();
  }
}

choice_delta choice::push(const generated_token& token) {
  choice_delta delta;
  if (finished())
    return delta;
  ++num_tokens_;
  if (options_.return_token_ids)
    delta.token_ids.push_back(token.token);
  pending_token pending{{token, produced_characters_}, produced_bytes_, produced_bytes_};
  const std::string piece = stream_->push(token.token);
  pending.end += piece.size();
  if (options_.logprobs)
    pending_.push_back(std::move(pending));
  take_text(piece, num_tokens_ > static_cast<uint32_t>(options_.sampling.min_tokens), delta);
  release_tokens(delta);
  return delta;
}

choice_delta choice::finish(finish_reason reason, int32_t stop_token) {
  choice_delta delta;
  if (finished())
    return delta;
  bool may_stop = num_tokens_ > static_cast<uint32_t>(options_.sampling.min_tokens);
  const auto& own = options_.stop_token_ids;
  const bool asked_for = std::find(own.begin(), own.end(), stop_token) != own.end();
  if (stop_token >= 0) {
    ++num_tokens_;
    if (options_.return_token_ids)
      delta.token_ids.push_back(stop_token);
    if (asked_for && options_.include_stop)
      take_text(stream_->push(stop_token), may_stop, delta);
  }
  if (!finished())
    take_text(stream_->flush(), may_stop, delta);
  if (!finished()) {
    delta.text += stops_.flush();
    reason_ = reason;
    if (asked_for)
      cause_ = stop_token;
  }
  release_tokens(delta);
  return delta;
}

} // namespace troupe::openai
