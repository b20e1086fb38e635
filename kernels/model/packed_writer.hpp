// Writes packed weight files.
#pragma once

#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/packed_format.hpp"

#include <filesystem>
#include <functional>

namespace troupe::model {

/// Called after everything that was written, with the experts among it. What it throws ends the writing, and
/// nothing is left behind.
using pack_progress = std::function<void(std::size_t experts, std::size_t total)>;

/// Writes everything that `source` gives into one file, the attention side first, then the experts in order,
/// each as one extent. The same source gives the same bytes, whatever the number of threads. The file appears
/// whole or not at all: it is written under another name, synced and renamed.
///
/// Holds the attention side and `threads` experts in memory at a time.
///
/// @param threads  that pack experts, at least 1
/// @errors  model_error: what the source says, or the file cannot be written (a full disk); nothing is left
///          behind then
void write_packed(const cpu_weights& source, const std::filesystem::path& file, unsigned threads,
                  const pack_progress& progress = {});

} // namespace troupe::model
