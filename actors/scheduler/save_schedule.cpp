#include "actors/scheduler/save_schedule.hpp"

#include <utility>

#include "actors/protocol/error.hpp"

namespace troupe {

bool save_schedule::begin(time_point now) {
  is_unsaved_ = saving_since_ || now < not_before_;
  if (!is_unsaved_)
    saving_since_ = now;
  return !is_unsaved_;
}

void save_schedule::succeeded() {
  saving_since_.reset();
  has_told_slow_ = false;
}

std::optional<operator_event> save_schedule::failed(const caf::error& error, time_point now) {
  saving_since_.reset();
  if (code_of(error) == ec::stale_term) // a newer placement waits to be saved, or is a successor's
    return std::nullopt;
  is_unsaved_ = true;
  not_before_ = now + defaults::slow_save;
  return operator_event{"placement-not-saved", text_of(error)};
}

std::optional<operator_event> save_schedule::check(time_point now) {
  if (!saving_since_ || now - *saving_since_ <= defaults::slow_save || std::exchange(has_told_slow_, true))
    return std::nullopt;
  return operator_event{"placement-not-saved",
                        "the disk of the state directory has not taken it yet; a successor that starts now "
                        "knows an older one"};
}

} // namespace troupe
