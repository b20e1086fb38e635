// Caches a checkpoint's fingerprint, so that the next start need not read every tensor.
#pragma once

#include "kernels/model/checkpoint.hpp"

#include <filesystem>
#include <string>

namespace troupe::model {

/// In the model folder; if that is not writable, `fingerprint_file` of the cache.
inline constexpr const char* fingerprint_file_name = "model.fingerprint";

/// The fingerprint of `weights`, read from a small file or computed and saved. The file is beside the
/// weights, or in `cache` if their folder is not writable. It contains its subject: the checksum of
/// config.json, and name, size, time of modification and inode of each weights file. A file with another
/// subject, or a damaged one, is ignored and rewritten. For weights that were written within the last two
/// seconds the fingerprint is not saved: the file system's clock may not distinguish the next write.
///
/// @param cache  a folder, created if missing; empty: none
/// @throws model_error as `checkpoint::fingerprint`; a failure to save is no error
std::string kept_fingerprint(const checkpoint& weights, const model_config& config,
                             const std::filesystem::path& cache);

/// Identifies config.json: 16 hexadecimal digits over its canonical text, which is also part of the
/// fingerprint.
std::string config_id_of(const model_config& config);

/// The file in `cache` for the fingerprint of the model in `folder`.
std::filesystem::path fingerprint_file(const std::filesystem::path& cache,
                                       const std::filesystem::path& folder);

} // namespace troupe::model
