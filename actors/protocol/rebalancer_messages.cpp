#include "actors/protocol/rebalancer_messages.hpp"

namespace troupe {

const char* to_string(placement_action action) {
  switch (action) {
  case placement_action::rebalance:
    return "rebalance";
  case placement_action::move:
    return "move";
  case placement_action::replicate:
    return "replicate";
  case placement_action::pin:
    return "pin";
  case placement_action::unpin:
    return "unpin";
  case placement_action::assign:
    return "assign";
  case placement_action::drain:
    return "drain";
  case placement_action::undrain:
    return "undrain";
  case placement_action::pause:
    return "pause";
  case placement_action::resume:
    return "resume";
  }
  return "unknown";
}

const char* to_string(planner_mode mode) {
  switch (mode) {
  case planner_mode::off:
    return "off";
  case planner_mode::on:
    return "on";
  case planner_mode::paused:
    return "paused";
  }
  return "unknown";
}

} // namespace troupe
