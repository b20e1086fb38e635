// The WEIGHTS FETCHER of an expert worker: gets experts that the worker is to load from others that have
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

#include "actors/atoms.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/directory.hpp"
#include "actors/defaults.hpp"
#include "actors/engine/engine.hpp"

namespace troupe {

struct expert_host_metrics; // expert_host_metrics.hpp

/// One expert to be fetched. `done` is told once, at the latest when the last pointer to it goes: a fetcher
/// that ends, or has ended, leaves nobody waiting.
struct weights_job {
  weights_job(expert_id which, std::vector<worker_address> from, std::shared_ptr<expert_sink> to,
              expert_fetch_done when_done);
  ~weights_job();
  weights_job(const weights_job&) = delete;
  weights_job& operator=(const weights_job&) = delete;

  /// @param error  empty: all is in the sink
  void finish(std::string error);

  const expert_id expert;
  const std::vector<worker_address> sources; ///< in the order in which they are to be asked
  const std::shared_ptr<expert_sink> sink;

 private:
  expert_fetch_done done_;
};

using weights_job_ptr = std::shared_ptr<weights_job>;

struct weights_fetch;
/// A fetch that goes on after a pause.
using weights_fetch_ptr = std::shared_ptr<weights_fetch>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::weights_job_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::weights_fetch_ptr)

namespace troupe {

/// The WEIGHTS FETCHER interface.
using weights_fetcher_actor = caf::typed_actor<
    // Asks one source after another for pieces, one piece at a time, each with a deadline, until one of them
    // has given all of it and the checksum is right. A source that fails in any way is left for the next one,
    // which begins anew. When there is none left, the job ends with what was wrong with each (local only).
    caf::reacts_to<weights_job_ptr>,
    // All sources were busy: asks them again (local only).
    caf::reacts_to<weights_fetch_ptr>>;

struct weights_fetcher_config {
  worker_id reader;           ///< this worker
  std::string fingerprint;    ///< of its model
  std::string numerics_class; ///< its own
  directory_actor directory;
  bool has_files = false; ///< sources that are busy are not waited for
  uint32_t chunk_bytes = defaults::weights_chunk_bytes;
  bool own_thread = true;
  std::shared_ptr<expert_host_metrics> metrics; ///< may be null
};

weights_fetcher_actor spawn_weights_fetcher(caf::actor_system& system, weights_fetcher_config config);

} // namespace troupe
