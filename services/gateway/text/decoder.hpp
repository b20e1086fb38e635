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

/// One text being put together from tokens by a decoder, as far as it is certain. Not thread-safe.
class decoder_stream {
 public:
  /// @p source must outlive the stream. @p continues: text stands before it, so that what only the beginning
  /// of a text loses (the blank of `▁there`) stays.
  explicit decoder_stream(const decoder& source, bool continues = false);

  /// Takes the next token's string; appends what has become certain to @p out.
  void push(std::string_view token, std::string& out);
  /// Ends the text: appends what was held back to @p out, and starts a new one.
  void flush(std::string& out);

 private:
  struct progress {
    std::string held;      // bytes or text that a later token may complete or change
    bool started = false;  // has seen a token
    std::size_t taken = 0; // characters stripped from the start
    bool open = true;      // further characters may be stripped from the start
  };

  void feed(std::size_t step, std::string token, std::string& out);
  void finish(std::size_t step, std::string& out);
  void feed_byte_level(std::size_t step, std::string_view bytes, std::string& out);
  void feed_strip(std::size_t step, std::string_view fragment, std::string& out);
  void finish_byte_fallback(std::size_t step, std::string& out);

  const decoder* source_;
  std::vector<progress> states_;
};

/// The `decoder` of tokenizer.json: makes text of vocabulary entries. Immutable and thread-safe.
class decoder {
 public:
  /// No decoder: entries with blanks between them.
  decoder();

  /// @throws text_error naming what is missing, malformed or unsupported.
  explicit decoder(const json_view& json);

  /// The bytes that @p token stands for in the middle of a text.
  std::string bytes_of(std::string_view token) const;

 private:
  friend class decoder_stream;

  enum class kind { join_with_blanks, byte_level, byte_fallback, fuse, strip, replace, metaspace };

  struct step {
    kind what;
    std::optional<regex> pattern; // replace
    std::string content;          // replace: put in; strip, metaspace: the character
    std::size_t start = 0;        // strip: at most this many at the start …
    std::size_t stop = 0;         // … and at the end
    bool drop_first = false;      // metaspace: the first token's marks are no blanks
    /// What comes in is one token in pieces, since an earlier step joins all tokens.
    bool fused = false;
    /// Cannot work on pieces of a token: waits for all of it.
    bool waits = false;
  };

  void read(const json_view& json, bool& fused);
  void add(step s, bool& fused);
  static std::string transform(const step& s, std::string_view token, bool first);
  static std::string strip(const step& s, std::string_view token);

  std::vector<step> steps_;
};

} // namespace troupe::text
