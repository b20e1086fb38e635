// The WEIGHTS FETCHER of an expert worker: fetches experts that the worker must load from workers that have
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/fwd.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/engine/engine.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/directory_actor.hpp"

namespace troupe {

struct expert_host_metrics; // expert_host_metrics.hpp

/// One expert to be fetched. `done` is called once, at the latest when the last pointer to the job is
/// destroyed, so that no caller waits for a fetcher that has ended.
struct weights_job {
  weights_job(expert_id which, std::vector<worker_address> from, std::shared_ptr<expert_sink> to,
              expert_fetch_done when_done);
  ~weights_job();
  weights_job(const weights_job&) = delete;
  weights_job& operator=(const weights_job&) = delete;

  /// @param error  empty if all bytes are in the sink
  void finish(std::string error);

  const expert_id expert;
  const std::vector<worker_address> sources; ///< in the order in which they are asked
  const std::shared_ptr<expert_sink> sink;

 private:
  expert_fetch_done done_;
};

using weights_job_ptr = std::shared_ptr<weights_job>;

struct weights_fetch;
/// A fetch that continues after a pause.
using weights_fetch_ptr = std::shared_ptr<weights_fetch>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::weights_job_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::weights_fetch_ptr)

namespace troupe {

/// The WEIGHTS FETCHER interface.
using weights_fetcher_actor = caf::typed_actor<
    // Asks one source after another for chunks, one chunk at a time, each with a deadline, until one source
    // has sent the whole expert with the right checksum. If a source fails, the fetch starts again at the
    // next one. After the last source the job ends with the error of each (local only).
    caf::reacts_to<weights_job_ptr>,
    // All sources were busy: asks them again (local only).
    caf::reacts_to<weights_fetch_ptr>>;

struct weights_fetcher_config {
  worker_id reader;           ///< this worker
  std::string fingerprint;    ///< of this worker's model
  std::string numerics_class; ///< of this worker
  directory_actor directory;
  bool has_files = false; ///< true: does not wait for busy sources
  std::uint32_t chunk_bytes = defaults::weights_chunk_bytes;
  bool own_thread = true;
  std::shared_ptr<expert_host_metrics> metrics; ///< may be null
};

weights_fetcher_actor spawn_weights_fetcher(caf::actor_system& system, weights_fetcher_config config);

} // namespace troupe
