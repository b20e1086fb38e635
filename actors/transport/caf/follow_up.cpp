#include "actors/transport/caf/follow_up.hpp"

namespace troupe {

namespace {

thread_local follow_up* current = nullptr;

} // namespace

follow_up::follow_up() {
  current = this;
}

follow_up::~follow_up() {
  current = nullptr;
}

follow_up* follow_up::of_this_thread() {
  return current;
}

} // namespace troupe
