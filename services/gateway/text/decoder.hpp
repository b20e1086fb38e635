// The `decoder` of tokenizer.json: turns vocabulary entries into text.
#pragma once

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/regex.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

class decoder;

/// Decodes one sequence of tokens and returns text as soon as it is final. Not thread-safe.
class decoder_stream {
 public:
  /// `source` must outlive the stream. With `continues`, the sequence follows other text: what is dropped
  /// only at the beginning of a text (the blank of `▁there`) stays.
  explicit decoder_stream(const decoder& source, bool continues = false);

  /// Adds the next token's string; appends the text that became final to `out`.
  void push(std::string_view token, std::string& out);
  /// Ends the text: appends held-back text to `out`, and starts a new one.
  void flush(std::string& out);

 private:
  struct progress {
    std::string held;      // bytes or text that a later token may complete or change
    bool started = false;  // a token has been pushed
    std::size_t taken = 0; // characters stripped from the start
    bool open = true;      // more characters may be stripped from the start
  };

  void feed(std::size_t step, std::string token, std::string& out);
  void finish(std::size_t step, std::string& out);
  void feed_byte_level(std::size_t step, std::string_view bytes, std::string& out);
  void feed_strip(std::size_t step, std::string_view fragment, std::string& out);
  void finish_byte_fallback(std::size_t step, std::string& out);

  const decoder* source_;
  std::vector<progress> states_;
};

/// One decoder. Immutable and thread-safe.
class decoder {
 public:
  /// The default decoder: entries with blanks between them.
  decoder();

  /// @throws text_error naming what is missing, malformed or unsupported.
  explicit decoder(const json_view& json);

  /// The bytes of `token` in the middle of a text.
  std::string bytes_of(std::string_view token) const;

 private:
  friend class decoder_stream;

  enum class kind { join_with_blanks, byte_level, byte_fallback, fuse, strip, replace, metaspace };

  struct step {
    kind what;
    std::optional<regex> pattern; // replace
    std::string content;          // replace: replacement; strip, metaspace: the character
    std::size_t start = 0;        // strip: at most this many at the start …
    std::size_t stop = 0;         // … and at the end
    bool drop_first = false;      // metaspace: the marks of the first token are no blanks
    /// The input is one token in pieces: an earlier step joins all tokens.
    bool fused = false;
    /// Needs the whole token: waits for the last piece.
    bool waits = false;
  };

  void read(const json_view& json, bool& fused);
  void add(step s, bool& fused);
  static std::string transform(const step& s, std::string_view token, bool first);
  static std::string strip(const step& s, std::string_view token);

  std::vector<step> steps_;
};

} // namespace troupe::text
