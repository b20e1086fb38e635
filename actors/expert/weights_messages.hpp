// An expert's weights on their way from a worker that has it loaded to one that is to load it.
#pragma once

#include <cstdint>
#include <string>

#include <caf/type_id.hpp>

#include "actors/declare_inspect.hpp"
#include "actors/first_type_ids.hpp"
#include "actors/ids.hpp"
#include "actors/transport/wire/payload.hpp"

namespace troupe {

/// A piece of an expert's packed bytes, please. Answered with weights_chunk.
struct weights_read {
  worker_id reader;
  uint64_t fetch = 0;         ///< names the fetch; unique per reader
  std::string fingerprint;    ///< of the reader's model
  std::string numerics_class; ///< of the reader
  expert_id expert;
  uint64_t offset = 0;
  uint32_t max_bytes = 0; ///< of the answer
  bool operator==(const weights_read&) const = default;
};

/// The piece, and what the reader must know of the whole, which is the same in every piece of a fetch.
struct weights_chunk {
  std::string layout;     ///< expert_image::layout
  uint64_t num_bytes = 0; ///< of the whole expert
  uint64_t checksum = 0;  ///< of the whole expert
  uint64_t offset = 0;
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
