#include "actors/protocol/message_lanes.hpp"

#include <caf/message.hpp>

#include "actors/protocol/type_ids.hpp"

namespace troupe {

namespace {

template <class... Ts>
bool begins_with_any(const caf::message& content) {
  return (content.match_element<Ts>(0) || ...);
}

} // namespace

bool is_bulk(const caf::message& content) {
  return !content.empty()
         && begins_with_any<weights_read, weights_chunk, activation_report, history_snapshot,
                            scheduler_status>(content);
}

} // namespace troupe
