// The protocol between a gateway and a template process over a stream socket. A message is a list of byte
// strings: their number and lengths (32 bits each, native byte order), then the bytes. It is not JSON,
// because the strings are JSON of up to megabytes and may hold malformed UTF-8 that the renderer must report.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

using template_message = std::vector<std::string>;

/// The strings of a request, in this order. `task` is "check" (compile `source` and keep it), "probe" (report
/// the parts of a conversation that the template loses, a line each) or "render"; `keep` and
/// `add_generation_prompt` are "1" or "0".
struct template_request {
  std::string_view task;
  std::string_view keep; ///< keep the compiled source for later renders, as for the model's own
  std::string_view source = {};
  std::string_view messages = {};  ///< JSON array
  std::string_view tools = {};     ///< JSON array or null
  std::string_view variables = {}; ///< JSON object: the special tokens
  std::string_view extra = {};     ///< JSON object
  std::string_view add_generation_prompt = {};
};

inline constexpr std::size_t template_request_strings = 8;

/// An answer is a kind and a text. Kinds: "ready" (once, at start; the text lists missing confinement),
/// "failed" (likewise; the process ends), "valid", "prompt", "request" (the conversation is refused),
/// "template" (the template itself is invalid).
struct template_answer {
  std::string kind;
  std::string text;
};

inline constexpr std::size_t template_answer_strings = 2;

/// Bytes of one prompt, and of all strings of one message.
inline constexpr std::size_t longest_prompt = 64UL << 20U;
inline constexpr std::size_t longest_message = longest_prompt + (1UL << 20U);

/// The other side is gone, is late, or breaks the protocol.
struct message_error : std::runtime_error {
  enum class kind { closed, late, malformed };

  message_error(kind why, const std::string& text) : std::runtime_error(text), what_kind(why) {}

  kind what_kind;
};

using message_deadline = std::chrono::steady_clock::time_point;

/// No deadline: for a template process waiting for work.
inline constexpr message_deadline no_deadline = message_deadline::max();

/// Sends all of it before the deadline. The socket may be blocking or not.
/// @throws message_error
void send_message(int socket, std::span<const std::string_view> strings, message_deadline deadline);

/// Reads exactly one message of `num_strings` strings.
/// @throws message_error, also for a message larger than longest_message
template_message receive_message(int socket, std::size_t num_strings, message_deadline deadline);

} // namespace troupe::text
