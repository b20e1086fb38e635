// Activation histories as bytes from a worker, from the state directory and from --history: accepted ones are
// consistent and unchanged by a round trip.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "actors/history/history_store.hpp"
#include "actors/protocol/activation_window.hpp"
#include "actors/state/durable_file.hpp"
#include "services/history/history_json.hpp"

namespace {

using namespace troupe;

void require(bool holds) {
  if (!holds)
    std::abort();
}

void read_window(const std::string& bytes) {
  const std::vector<std::uint32_t> shape{3, 0, 8};
  const auto window = decode_window(bytes, shape);
  require(shape_of(window.counts) == shape);
  require(decode_window(encode(window), shape) == window);
}

/// With a correct checksum, which the fuzzer would not find.
void read_stored(std::string body) {
  const auto sum = checksum_of(body);
  for (unsigned shift = 0; shift < 64; shift += 8)
    body += static_cast<char>(sum >> shift);
  const auto stored = parse_stored_history(body);
  require(flaw_of(stored.history).empty());
  require(parse_stored_history(render(stored)) == stored);
}

void read_json(const std::string& text) {
  const auto history = parse_history_json(text);
  require(flaw_of(history).empty());
  require(parse_history_json(history_json(history)) == history);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const std::string input{reinterpret_cast<const char*>(data) + 1, size - 1};
  try {
    switch (data[0] % 3) {
    case 0:
      read_window(input);
      break;
    case 1:
      read_stored(input);
      break;
    default:
      read_json(input);
    }
  } catch (const std::runtime_error&) {
  }
  return 0;
}
