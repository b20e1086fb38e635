// troupe-template: renders chat templates for a gateway, in a confined process that can be killed. It reads
// requests from the socket at descriptor 3 and answers there.
#include "services/gateway/template/confinement.hpp"
#include "services/gateway/template/python_renderer.hpp"
#include "services/gateway/template/template_message.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace troupe::text {

namespace {

constexpr int gateway_socket = 3;

std::optional<std::uint64_t> read_number(std::string_view word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
}

void send_answer(const template_answer& answer) {
  send_message(gateway_socket,
               std::array<std::string_view, template_answer_strings>{answer.kind, answer.text}, no_deadline);
}

/// Keeps later output of Python out of the gateway's log.
void silence() {
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    dup2(nowhere, stream);
  close(nowhere);
}

int serve(pid_t parent, std::uint64_t memory_bytes) {
  die_with(parent);
  try {
    std::optional<python_renderer> renderer;
    try {
      silence();
      renderer.emplace();
      send_answer({"ready", confine(memory_bytes)});
    } catch (const message_error&) {
      throw;
    } catch (const std::exception& e) {
      send_answer({"failed", e.what()});
      return 1;
    }
    while (true)
      send_answer(renderer->answer(receive_message(gateway_socket, template_request_strings, no_deadline)));
  } catch (const message_error& gone) {
    return gone.what_kind == message_error::kind::closed ? 0 : 1; // the gateway has ended
  }
}

} // namespace

} // namespace troupe::text

// Read by the address sanitizer, if linked in: the limit of the address space cannot bound its allocations.
extern "C" const char* __asan_default_options();

const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=1024:detect_leaks=0";
}

int main(int argc, char** argv) {
  using troupe::text::read_number;
  const auto parent = argc == 3 ? read_number(argv[1]) : std::nullopt;
  const auto memory_bytes = argc == 3 ? read_number(argv[2]) : std::nullopt;
  if (!parent || !memory_bytes) {
    std::fprintf(stderr,
                 "usage: troupe-template PARENT_PID MEMORY_BYTES\n\nRenders chat templates for a gateway "
                 "(troupe serve, troupe-gateway), which starts it; nothing that people start.\n");
    return 2;
  }
  const int status = troupe::text::serve(static_cast<pid_t>(*parent), *memory_bytes);
  _exit(status); // Python is not shut down: its process ends
}
