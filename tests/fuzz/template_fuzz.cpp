// Chat templates and conversations through a real template process, and bytes on its socket. If the first
// byte is even, the rest is what a process sends to its gateway; if odd, the rest is a template, a NUL and
// the messages. For any input, the answer is a prompt or one error, in time, and the next conversation is
// rendered.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "services/gateway/template/template_message.hpp"
#include "services/gateway/text/chat_template.hpp"
#include "services/gateway/text/template_processes.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/unicode.hpp"

namespace {

using namespace troupe::text;

void require(bool holds) {
  if (!holds)
    std::abort();
}

constexpr std::string_view plain_messages = R"([{"role": "user", "content": "hi"}])";

/// A hostile template takes this long; its process is replaced meanwhile.
constexpr std::chrono::milliseconds render_limit{300};

const chat_template& templates() {
  static const chat_template served = [] {
    template_process_options options;
    options.program = TROUPE_TEMPLATE_PROGRAM;
    options.most = 2;
    options.memory_bytes = std::uint64_t{512} << 20U;
    return chat_template(std::make_shared<template_processes>(std::move(options)),
                         "{% for m in messages %}{{ m.content }}{% endfor %}");
  }();
  return served;
}

void render(std::string_view input) {
  const auto end = input.find('\0');
  const std::string_view source = input.substr(0, end);
  const std::string_view messages = end == std::string_view::npos ? plain_messages : input.substr(end + 1);
  bool is_done = true;
  const auto begin = std::chrono::steady_clock::now();
  try {
    chat_request asked{.messages = messages};
    asked.source = source;
    asked.time_limit = render_limit;
    const std::string prompt = templates().render(asked);
    require(scan_utf8(prompt).valid == prompt.size());
  } catch (const template_error&) {
    is_done = false;
  } catch (const text_unavailable&) {
    is_done = false;
  }
  require(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)); // of a busy machine
  if (is_done)
    return;
  chat_request next{.messages = plain_messages};
  next.time_limit = std::chrono::seconds(20);
  require(templates().render(next) == "hi");
}

/// A message of the process, which then closes the socket.
void receive(std::string_view bytes) {
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const bool is_sent = ::send(ends[0], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT)
                       == static_cast<ssize_t>(bytes.size());
  ::close(ends[0]);
  try {
    const auto strings = receive_message(ends[1], template_answer_strings, no_deadline);
    std::size_t total = (template_answer_strings + 1) * sizeof(std::uint32_t);
    for (const auto& one : strings)
      total += one.size();
    require(strings.size() == template_answer_strings && (!is_sent || total <= bytes.size()));
  } catch (const message_error&) {
  }
  ::close(ends[1]);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0)
    receive(rest);
  else
    render(rest);
  return 0;
}
