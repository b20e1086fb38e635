// How often the routers chose each expert over a span of time, and its compact form on the wire and in files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>

namespace troupe {

/// Rows that one attention worker has sent to experts.
struct activation_counts {
  std::uint64_t tokens = 0;        ///< rows of its micro-batches, each counted once, not once a layer
  std::uint64_t micro_batches = 0; ///< micro-batches that passed the layers; 0: not counted
  /// [layers][experts of the layer] rows sent to each expert; empty for a dense layer. A token counts once
  /// for each of its top-k experts.
  std::vector<std::vector<std::uint64_t>> rows;
  bool operator==(const activation_counts&) const = default;
};

/// Counts since the worker started. They stay in its process.
using activation_counts_ptr = std::shared_ptr<const activation_counts>;

/// Counts of a span of time.
struct activation_window {
  std::uint64_t duration_ms = 0;
  activation_counts counts;
  bool operator==(const activation_window&) const = default;
};

/// Rows of all layers and experts.
std::uint64_t num_rows(const activation_counts& counts);

/// The difference of two counts of one worker.
/// @param before  [the same shape], or without layers: nothing
activation_counts counts_between(const activation_counts& before, const activation_counts& after);

/// The number of experts of each layer.
std::vector<std::uint32_t> shape_of(const activation_counts& counts);

/// Bounds on the shape of a model: they bound the memory that a message can claim.
inline constexpr std::size_t max_history_layers = 4096;
inline constexpr std::size_t max_history_experts = std::size_t{1} << 20; ///< of all layers together
/// Bound on every number in a window, so that sums over all experts fit 64 bits, and on its duration.
inline constexpr std::uint64_t max_window_number = std::uint64_t{1} << 40;
inline constexpr std::uint64_t max_window_ms = std::uint64_t{1} << 32;

/// Why no model can have this shape; empty when one can.
std::string shape_flaw_of(const std::vector<std::uint32_t>& layer_experts);

/// Bytes: duration, tokens, micro-batches, then each layer that is not dense. A layer begins with a byte for
/// its form, the shorter one of
///  0: the number of active experts; for each of them the number of experts left out before it, and its rows;
///  1: the rows of each expert.
/// All numbers are LEB128 (base 128, lowest seven bits first): small ones take a byte. 60 layers of 256
/// experts take 120 bytes when almost nothing ran, and 15 to 30 KB when every expert ran. A number above its
/// bound is written as the bound.
std::string encode(const activation_window& window);

/// @param layer_experts  experts of each layer, 0 for a dense one, as passed to `encode`
/// @throws std::runtime_error  the bytes are no window of this shape
activation_window decode_window(std::string_view bytes, const std::vector<std::uint32_t>& layer_experts);

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::activation_counts_ptr)
