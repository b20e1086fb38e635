// How each kind of event is shown in a timeline: its name, its place, and the names of its arguments.
#pragma once

#include <array>
#include <string_view>

#include "actors/timeline/event.hpp"

namespace troupe {

/// Where an event is shown.
enum class event_place {
  thread,  ///< a slice on its thread; slices of a thread nest
  track,   ///< a slice of a separate track, beside others of the same id
  instant, ///< a mark
  none     ///< it explains other events
};

/// What identifies a track, beside the kind's category.
enum class track_of { id, id_and_first_arg, id_and_two_args, own };

struct event_form {
  timeline::event_kind kind;
  std::string_view name;
  std::string_view category;
  event_place place;
  track_of track;
  bool is_of_request;                   ///< `id` is the key of a request
  std::array<std::string_view, 8> args; ///< empty: not shown
};

/// @returns null for an unknown kind
const event_form* form_of(timeline::event_kind kind);

} // namespace troupe
