// Messages from an engine to the actor that waits for it. They never leave the process.
#pragma once

#include <cstdint>
#include <memory>

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/engine/engine.hpp"

namespace troupe {

/// A finished pass of an attention step.
struct attention_step_done {
  attention_step_ptr step;
  attention_result result;
};

/// A finished expert step.
struct expert_step_done {
  std::uint64_t step = 0; ///< the host's number of the step
  expert_step_result result;
};

/// A finished change of the loaded experts.
struct expert_load_done_message {
  std::uint64_t order = 0;
  expert_load_result result;
};

using attention_done_ptr = std::shared_ptr<attention_step_done>;
using expert_step_ptr = std::shared_ptr<expert_step_done>;
using expert_load_ptr = std::shared_ptr<expert_load_done_message>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::attention_done_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::expert_step_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::expert_load_ptr)
