#include "services/gateway/text/decoder.hpp"

#include "services/gateway/text/byte_alphabet.hpp"
#include "services/gateway/text/pattern.hpp"
#include "services/gateway/text/unicode.hpp"

#include <utility>

namespace troupe::text {

namespace {

/// How often `character` is repeated at the start (or the end) of `text`, at most `most`.
std::size_t count_at_start(std::string_view text, std::string_view character, std::size_t most) {
  std::size_t n = 0;
  for (; n < most && text.starts_with(character); ++n)
    text.remove_prefix(character.size());
  return n;
}

std::size_t count_at_end(std::string_view text, std::string_view character, std::size_t most) {
  std::size_t n = 0;
  for (; n < most && text.ends_with(character); ++n)
    text.remove_suffix(character.size());
  return n;
}

std::string one_character(const json_view& json) {
  const auto& text = json.string();
  if (text.empty() || utf8_size(text.front()) != text.size())
    json.fail("one character is expected");
  return text;
}

} // namespace

decoder::decoder() {
  steps_.push_back({.what = kind::join_with_blanks, .pattern = {}, .content = {}});
}

decoder::decoder(const json_view& json) {
  bool fused = false;
  read(json, fused);
}

void decoder::add(step s, bool& fused) {
  s.fused = fused;
  const bool one_character_pattern =
      s.pattern && !s.pattern->literal().empty()
      && utf8_size(s.pattern->literal().front()) == s.pattern->literal().size();
  s.waits = fused
            && (s.what == kind::byte_level || s.what == kind::byte_fallback
                || (s.what == kind::replace && !one_character_pattern));
  fused = fused || s.what == kind::fuse || s.what == kind::byte_level;
  steps_.push_back(std::move(s));
}

void decoder::read(const json_view& json, bool& fused) {
  const auto& type = json.at("type").string();
  step s{.what = kind::fuse, .pattern = {}, .content = {}};
  if (type == "Sequence") {
    const auto list = json.at("decoders");
    for (std::size_t i = 0; i < list.array_size(); ++i)
      read(list.item(i), fused);
    return;
  }
  if (type == "ByteLevel") {
    s.what = kind::byte_level;
  } else if (type == "ByteFallback") {
    s.what = kind::byte_fallback;
  } else if (type == "Strip") {
    s.what = kind::strip;
    s.content = one_character(json.at("content"));
    s.start = json.at("start").count();
    s.stop = json.at("stop").count();
  } else if (type == "Replace") {
    s.what = kind::replace;
    s.pattern = read_pattern(json.at("pattern"));
    s.content = json.at("content").string();
  } else if (type == "Metaspace") {
    s.what = kind::metaspace;
    s.content = one_character(json.at("replacement"));
    s.drop_first =
        json.boolean_or("add_prefix_space", true) && json.string_or("prepend_scheme", "always") != "never";
  } else if (type != "Fuse") {
    json.fail("decoder type '" + type + "' is not supported");
  }
  add(std::move(s), fused);
}

std::string decoder::strip(const step& s, std::string_view token) {
  token.remove_prefix(count_at_start(token, s.content, s.start) * s.content.size());
  token.remove_suffix(count_at_end(token, s.content, s.stop) * s.content.size());
  return std::string(token);
}

std::string decoder::transform(const step& s, std::string_view token, bool first) {
  if (s.what == kind::replace)
    return replace_all(*s.pattern, token, s.content);
  std::string out;
  // Metaspace.
  const std::string_view blank = first && s.drop_first ? "" : " ";
  while (!token.empty()) {
    if (token.starts_with(s.content)) {
      out += blank;
      token.remove_prefix(s.content.size());
    } else {
      const auto size = utf8_size(token.front());
      out += token.substr(0, size);
      token.remove_prefix(size);
    }
  }
  return out;
}

std::string decoder::bytes_of(std::string_view token) const {
  std::string text(token);
  for (const auto& s : steps_) {
    switch (s.what) {
    case kind::join_with_blanks:
    case kind::fuse:
      break;
    case kind::byte_level:
      if (auto bytes = from_byte_level(text))
        return std::move(*bytes);
      return text;
    case kind::byte_fallback:
      if (const auto byte = byte_of_fallback_token(text))
        return {static_cast<char>(*byte)};
      break;
    case kind::strip:
      if (!s.fused)
        text = decoder::strip(s, text);
      break;
    case kind::replace:
    case kind::metaspace:
      text = transform(s, text, false);
      break;
    }
  }
  return text;
}

decoder_stream::decoder_stream(const decoder& source, bool continues)
    : source_(&source), states_(source.steps_.size()) {
  for (auto& state : states_) {
    state.started = continues;
    state.open = !continues;
  }
}

void decoder_stream::push(std::string_view token, std::string& out) {
  feed(0, std::string(token), out);
}

void decoder_stream::flush(std::string& out) {
  for (std::size_t step = 0; step < states_.size(); ++step)
    finish(step, out);
  states_.assign(states_.size(), {});
}

void decoder_stream::feed(std::size_t step, std::string token, std::string& out) {
  if (step == source_->steps_.size()) {
    out += token;
    return;
  }
  const auto& s = source_->steps_[step];
  auto& state = states_[step];
  const bool first = !state.started || s.fused; // all pieces of a fused token are the first
  state.started = true;
  if (s.waits) {
    state.held += token;
    return;
  }
  switch (s.what) {
  case decoder::kind::join_with_blanks:
    feed(step + 1, first ? std::move(token) : " " + token, out);
    break;
  case decoder::kind::fuse:
    feed(step + 1, std::move(token), out);
    break;
  case decoder::kind::byte_level: {
    auto bytes = from_byte_level(token);
    feed_byte_level(step, bytes ? *bytes : token, out);
    break;
  }
  case decoder::kind::byte_fallback:
    // One malformed byte spoils its whole run of byte tokens, so none of the run is certain before it ends.
    if (const auto byte = byte_of_fallback_token(token)) {
      state.held += static_cast<char>(*byte);
    } else {
      finish_byte_fallback(step, out);
      feed(step + 1, std::move(token), out);
    }
    break;
  case decoder::kind::strip:
    if (s.fused)
      feed_strip(step, token, out);
    else
      feed(step + 1, decoder::strip(s, token), out);
    break;
  case decoder::kind::replace:
  case decoder::kind::metaspace:
    feed(step + 1, decoder::transform(s, token, first), out);
    break;
  }
}

void decoder_stream::feed_byte_level(std::size_t step, std::string_view bytes, std::string& out) {
  auto& held = states_[step].held;
  held += bytes;
  std::string certain;
  std::string_view rest = held;
  for (bool more = true; more;) {
    const auto scan = scan_utf8(rest);
    certain += rest.substr(0, scan.valid);
    rest.remove_prefix(scan.valid);
    more = scan.malformed > 0;
    if (more) {
      append_utf8(certain, replacement_character);
      rest.remove_prefix(scan.malformed);
    }
  }
  held = std::string(rest);
  if (!certain.empty())
    feed(step + 1, std::move(certain), out);
}

void decoder_stream::feed_strip(std::size_t step, std::string_view fragment, std::string& out) {
  const auto& s = source_->steps_[step];
  auto& state = states_[step];
  state.held += fragment;
  if (state.open) {
    const auto n = count_at_start(state.held, s.content, s.start - state.taken);
    state.held.erase(0, n * s.content.size());
    state.taken += n;
    state.open = state.held.empty() && state.taken < s.start;
  }
  // Text at the end that may be stripped is held back.
  const auto kept = count_at_end(state.held, s.content, s.stop) * s.content.size();
  auto certain = state.held.substr(0, state.held.size() - kept);
  state.held.erase(0, certain.size());
  if (!certain.empty())
    feed(step + 1, std::move(certain), out);
}

void decoder_stream::finish_byte_fallback(std::size_t step, std::string& out) {
  auto run = std::exchange(states_[step].held, {});
  if (run.empty())
    return;
  if (scan_utf8(run).valid == run.size()) {
    feed(step + 1, std::move(run), out);
    return;
  }
  std::string replacement;
  append_utf8(replacement, replacement_character);
  for (std::size_t i = 0; i < run.size(); ++i)
    feed(step + 1, replacement, out);
}

void decoder_stream::finish(std::size_t step, std::string& out) {
  const auto& s = source_->steps_[step];
  auto& held = states_[step].held;
  switch (s.what) {
  case decoder::kind::byte_level:
    if (s.waits) {
      auto bytes = from_byte_level(held);
      feed(step + 1, to_valid_utf8(bytes ? *bytes : held), out);
    } else if (!held.empty()) { // incomplete character
      feed(step + 1, to_valid_utf8(held), out);
    }
    break;
  case decoder::kind::byte_fallback:
    if (!s.waits)
      finish_byte_fallback(step, out);
    else if (const auto byte = byte_of_fallback_token(held))
      feed(step + 1, to_valid_utf8(std::string(1, static_cast<char>(*byte))), out);
    else
      feed(step + 1, std::exchange(held, {}), out);
    break;
  case decoder::kind::replace:
    if (s.waits)
      feed(step + 1, decoder::transform(s, held, true), out);
    break;
  case decoder::kind::join_with_blanks:
  case decoder::kind::fuse:
  case decoder::kind::strip: // the held ones are to be stripped
  case decoder::kind::metaspace:
    break;
  }
}

} // namespace troupe::text
