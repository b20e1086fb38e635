// Which experts the routers chose over a span of time, and its compact form on the wire and in files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>

namespace troupe {

/// What one attention worker has sent to experts.
struct activation_counts {
  uint64_t tokens = 0;        ///< rows of its micro-batches, each counted once and not once a layer
  uint64_t micro_batches = 0; ///< that went through the layers; 0 where nobody has counted them
  /// [layers][experts of the layer] rows sent to each expert; empty for a dense layer. A token counts once
  /// for each of its top-k experts.
  std::vector<std::vector<uint64_t>> rows;
  bool operator==(const activation_counts&) const = default;
};

/// Counts since the worker started, which never leave its process.
using activation_counts_ptr = std::shared_ptr<const activation_counts>;

/// Counts of a span of time.
struct activation_window {
  uint64_t duration_ms = 0;
  activation_counts counts;
  bool operator==(const activation_window&) const = default;
};

/// Rows of all layers and experts.
uint64_t num_rows(const activation_counts& counts);

/// What was counted between two looks at the same worker.
/// @param before  [the same shape], or without layers: nothing
activation_counts counts_between(const activation_counts& before, const activation_counts& after);

/// The number of experts of each layer.
std::vector<uint32_t> shape_of(const activation_counts& counts);

/// Bounds on the shape of a model, so that nobody can name one that fills the memory.
inline constexpr size_t max_history_layers = 4096;
inline constexpr size_t max_history_experts = size_t{1} << 20; ///< of all layers together
/// Bound on every number in a window, so that sums over all experts fit 64 bits, and on its duration.
inline constexpr uint64_t max_window_number = uint64_t{1} << 40;
inline constexpr uint64_t max_window_ms = uint64_t{1} << 32;

/// Why no model has this shape; empty when one may.
std::string shape_flaw_of(const std::vector<uint32_t>& layer_experts);

/// Bytes: duration, tokens, micro-batches, then each layer that is not dense. A layer is a byte for its form,
/// then
///   0: its number of active experts, and for each of them how many were left out before it, and its rows;
///   1: the rows of each of its experts;
/// whichever is shorter. All numbers are in base 128, the lowest seven bits first (LEB128), so that small
/// ones take a byte. 60 layers of 256 experts take 120 bytes when next to nothing ran, and 15 to 30 KB when
/// all did. Numbers above their bound are written as that.
std::string encode(const activation_window& window);

/// @param layer_experts  experts of each layer, 0 for a dense one: what `encode` was given
/// @errors throws `std::runtime_error` for bytes that are no window of this shape
activation_window decode_window(std::string_view bytes, const std::vector<uint32_t>& layer_experts);

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::activation_counts_ptr)
