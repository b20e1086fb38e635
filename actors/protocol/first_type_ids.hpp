// Where each block of message types begins among CAF's ids. A block stands beside its messages, so a changed
// message recompiles only its users. Names and atoms travel on the wire, ids do not.
#pragma once

#include <caf/type_id.hpp>

namespace troupe::first_type_id {

/// Size of a block; `type_ids.cpp` checks that none has more. The transport's own block (actors/transport)
/// takes the first two of these, collectives begin at 240.
constexpr caf::type_id_t most = 16;

constexpr caf::type_id_t of_ids = caf::first_custom_type_id + 40;
constexpr caf::type_id_t of_atoms = caf::first_custom_type_id + 56;
constexpr caf::type_id_t of_generation = caf::first_custom_type_id + 72;
constexpr caf::type_id_t of_expert = caf::first_custom_type_id + 88;
constexpr caf::type_id_t of_weights = caf::first_custom_type_id + 104;
constexpr caf::type_id_t of_cluster = caf::first_custom_type_id + 120;
constexpr caf::type_id_t of_view = caf::first_custom_type_id + 136;
constexpr caf::type_id_t of_status = caf::first_custom_type_id + 152;
constexpr caf::type_id_t of_trace = caf::first_custom_type_id + 168;
constexpr caf::type_id_t of_admission = caf::first_custom_type_id + 184;
constexpr caf::type_id_t of_history = caf::first_custom_type_id + 200;
constexpr caf::type_id_t of_rebalancer = caf::first_custom_type_id + 216;

} // namespace troupe::first_type_id
