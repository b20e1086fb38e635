// Writes packed weight files.
#pragma once

#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/packed_format.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

namespace troupe::model {

/// Progress of writing a packed file. Bytes are those of the file; their total is an estimate until the
/// attention side is written.
struct pack_state {
  std::size_t experts = 0;
  std::size_t num_experts = 0;
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// Called at the start and after each extent. Its exceptions end the writing, which the next attempt
/// continues.
using pack_progress = std::function<void(const pack_state&)>;

/// How much a killed process may have to write again, and how often the disk is waited for.
inline constexpr std::uint64_t bytes_between_notes = std::uint64_t{64} << 20;

/// Writes everything from `source` into one file: the attention side first, then the experts in order, each
/// as one extent. The same source gives the same bytes, for any number of threads and interruptions. The file
/// appears complete or not at all: it is written under another name (`partial_file`), synced and renamed. The
/// part that an interrupted process wrote is checked, kept and not requested from `source` again, except the
/// attention side, which is loaded from there.
///
/// Only one process may write a file at a time. Holds the attention side and `threads` experts in memory at a
/// time.
///
/// @param threads  that pack experts, at least 1
/// @param note_every  bytes
/// @throws model_error of the source; or the file cannot be written (a full disk), and nothing is left of it
void write_packed(const cpu_weights& source, const std::filesystem::path& file, unsigned threads,
                  const pack_progress& progress = {}, std::uint64_t note_every = bytes_between_notes);

} // namespace troupe::model
