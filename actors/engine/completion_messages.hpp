// What an engine has finished, as a message to the actor that waits for it. These never leave the process.
#pragma once

#include <cstdint>
#include <memory>

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/engine/engine.hpp"

namespace troupe {

/// An attention step that is complete, with its micro-batch.
struct attention_step_done {
  micro_batch_ptr batch;
  attention_result result;
};

/// An expert step that is complete.
struct expert_step_done {
  uint64_t step = 0; ///< the host's name for it
  expert_step_result result;
};

/// A change of the hosted experts that is complete.
struct expert_load_done_message {
  uint64_t order = 0;
  expert_load_result result;
};

using attention_step_ptr = std::shared_ptr<attention_step_done>;
using expert_step_ptr = std::shared_ptr<expert_step_done>;
using expert_load_ptr = std::shared_ptr<expert_load_done_message>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::attention_step_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::expert_step_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::expert_load_ptr)
