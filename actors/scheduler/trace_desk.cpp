#include "actors/scheduler/trace_desk.hpp"

#include <utility>

namespace troupe {

namespace {

operator_event tracing_event(const trace_command& command, const char* why) {
  const auto what = command.share_ppm == 0
                        ? std::string{"stops"}
                        : "traces " + std::to_string(command.share_ppm) + " of a million requests";
  return {"tracing", what + why};
}

} // namespace

operator_event trace_desk::command(trace_command newest) {
  current_ = newest;
  saved_.reset();
  return tracing_event(newest, ", as told");
}

std::optional<operator_event> trace_desk::joined(const worker_hello& hello) {
  if (!saved_ || hello.term == 0)
    return std::nullopt;
  current_ = std::exchange(saved_, std::nullopt);
  return tracing_event(*current_, ", as the scheduler before was told");
}

void trace_answers::add(const trace_receipt& part) {
  receipt_.processes.insert(receipt_.processes.end(), part.processes.begin(), part.processes.end());
  if (--missing_ == 0)
    answer_(receipt_);
}

} // namespace troupe
