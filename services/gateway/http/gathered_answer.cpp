#include "services/gateway/http/gathered_answer.hpp"

#include <string>
#include <utility>

#include "services/gateway/openai/answer_size.hpp"

namespace troupe::http {

gathered_answer::~gathered_answer() {
  shared_.gathered_bytes -= num_bytes_;
}

void gathered_answer::gain(std::uint32_t choice, openai::choice_delta more) {
  account(openai::bytes_of(more));
  append(choices_.at(choice), std::move(more));
}

void gathered_answer::account(std::size_t more_bytes) {
  num_bytes_ += more_bytes;
  const std::size_t all = shared_.gathered_bytes += more_bytes;
  const std::size_t most = shared_.config.requests.max_response_bytes;
  if (num_bytes_ > most)
    throw openai::answer_too_large(most);
  if (all > shared_.config.limits.max_gathered_bytes)
    throw refused_for_room(shared_, "answers of " + std::to_string(all >> 20) + " MiB are being gathered");
}

openai::choice_delta gathered_answer::take(std::uint32_t choice) {
  openai::choice_delta taken = std::exchange(choices_.at(choice), {});
  const std::size_t freed = openai::bytes_of(taken);
  num_bytes_ -= freed;
  shared_.gathered_bytes -= freed;
  return taken;
}

} // namespace troupe::http
