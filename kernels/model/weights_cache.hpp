// Saves packed checkpoints, so that the next start maps them.
#pragma once

#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/packed_source.hpp"
#include "kernels/model/packed_writer.hpp"

#include <filesystem>
#include <functional>
#include <memory>

namespace troupe::model {

struct cache_options {
  std::filesystem::path folder{};
  /// Threads for writing it.
  unsigned threads = 1;
  /// Called while it is written; an exception ends that, and the next start continues there.
  pack_progress progress{};
  /// Called at first, then ten times a second, while another process writes it; `first` marks the first call.
  /// May throw.
  std::function<void(const std::filesystem::path& file, bool first)> waiting{};
};

/// The packed file of a checkpoint, its quantization and coding. If it is missing or unusable it is written
/// first, continuing after an interruption; once, even for several processes. An existing file is only read:
/// its folder need not be writable.
///
/// @param memory  where its weights are used
/// @throws model_error. A damaged extent is found when it is requested: then the file is removed
/// (`damaged_file::removed`), and the next start writes it again
std::shared_ptr<const cpu_weights> open_cached(const checkpoint_source& source, weight_memory memory,
                                               const cache_options& options);

} // namespace troupe::model
