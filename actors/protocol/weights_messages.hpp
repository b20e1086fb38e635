// An expert's weights on their way from a worker that has it loaded to one that loads it.
#pragma once

#include <cstdint>
#include <string>

#include <caf/type_id.hpp>

#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/first_type_ids.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/transport/wire/payload.hpp"

namespace troupe {

/// Asks for a piece of an expert's packed bytes. Answered with weights_chunk.
struct weights_read {
  worker_id reader;
  std::uint64_t fetch = 0;    ///< identifies the fetch; unique per reader
  std::string fingerprint;    ///< of the reader's model
  std::string numerics_class; ///< of the reader
  expert_id expert;
  std::uint64_t offset = 0;
  std::uint32_t max_bytes = 0; ///< of the answer
  bool operator==(const weights_read&) const = default;
};

/// A piece, and the description of the whole, which is the same in every piece of a fetch.
struct weights_chunk {
  std::string layout;          ///< expert_image::layout
  std::uint64_t num_bytes = 0; ///< of the whole expert
  std::uint64_t checksum = 0;  ///< of the whole expert
  std::uint64_t offset = 0;
  payload bytes; ///< from `offset` on, at least one
  bool operator==(const weights_chunk&) const = default;
};

TROUPE_DECLARE_INSPECT(weights_read)
TROUPE_DECLARE_INSPECT(weights_chunk)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_weights, troupe::first_type_id::of_weights)
  CAF_ADD_TYPE_ID(troupe_weights, (troupe::weights_read))
  CAF_ADD_TYPE_ID(troupe_weights, (troupe::weights_chunk))
CAF_END_TYPE_ID_BLOCK(troupe_weights)
