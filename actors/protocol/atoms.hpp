// The atoms of messages between actors.
#pragma once

#include <caf/atom.hpp>
#include <caf/type_id.hpp>

#include "actors/protocol/first_type_ids.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(troupe_atoms, troupe::first_type_id::of_atoms)
  CAF_ADD_ATOM(troupe_atoms, troupe, cancel_atom, "cancel")
  CAF_ADD_ATOM(troupe_atoms, troupe, done_atom, "done")
  CAF_ADD_ATOM(troupe_atoms, troupe, fence_atom, "fence")
  CAF_ADD_ATOM(troupe_atoms, troupe, gather_atom, "gather")
  CAF_ADD_ATOM(troupe_atoms, troupe, linger_atom, "linger")
  CAF_ADD_ATOM(troupe_atoms, troupe, load_atom, "load")
  CAF_ADD_ATOM(troupe_atoms, troupe, scheduler_atom, "scheduler")
  CAF_ADD_ATOM(troupe_atoms, troupe, status_atom, "status")
  CAF_ADD_ATOM(troupe_atoms, troupe, stop_atom, "stop")
  CAF_ADD_ATOM(troupe_atoms, troupe, silent_atom, "silent")
  CAF_ADD_ATOM(troupe_atoms, troupe, view_atom, "view")
  CAF_ADD_ATOM(troupe_atoms, troupe, history_atom, "history")
  CAF_ADD_ATOM(troupe_atoms, troupe, fleet_atom, "fleet")
  CAF_ADD_ATOM(troupe_atoms, troupe, ready_atom, "ready")
CAF_END_TYPE_ID_BLOCK(troupe_atoms)
