// Packed checkpoints, kept so that the next start maps them.
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
  /// Threads that fill it.
  unsigned threads = 1;
  /// Told while it is filled; what it throws ends that, and nothing is left behind.
  pack_progress progress{};
  /// Called at first, and then ten times a second, while another process fills it; `first` tells which. May
  /// throw.
  std::function<void(const std::filesystem::path& file, bool first)> waiting{};
};

/// The packed file of a checkpoint, its quantization and coding, written first where it is missing or cannot
/// be used; once, also when several processes ask. A file that is there is only read: its folder need not be
/// writable.
///
/// @param memory  where its weights are used
/// @errors  model_error. A damaged extent is found when it is asked for: then the file is removed
///          (`damaged_file::removed`), and the next start writes it again.
std::shared_ptr<const cpu_weights> open_cached(const checkpoint_source& source, weight_memory memory,
                                               const cache_options& options);

} // namespace troupe::model
