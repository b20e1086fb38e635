// How each kind of event looks in a timeline: its name, its place, and what its arguments are called.
#pragma once

#include <array>
#include <string_view>

#include "actors/timeline/event.hpp"

namespace troupe {

/// Where an event stands.
enum class event_place {
  thread,  ///< a slice of the thread that wrote it: those of a thread lie in one another
  track,   ///< a slice of a track of its own, beside others of the same id
  instant, ///< a mark
  none     ///< it explains other events
};

/// What a track is called by, beside the kind's category.
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

/// @returns null for a kind that this program does not know
const event_form* form_of(timeline::event_kind kind);

} // namespace troupe
