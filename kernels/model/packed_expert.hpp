// One expert's packed bytes on their way from one process to another: read where it is loaded, put together
// where it is to be.
#pragma once

#include "kernels/buffer.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/model/cpu_weights.hpp"
#include "kernels/packed_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe::model {

/// Names how an expert of `layer` lies in memory in `format`: format, shape, the layout's version, the
/// arithmetic revision and which config.json asks for it. Processes that agree on it may exchange the bytes.
/// E.g. "bf16-coded 64x128 v2 r9 config 81985529216486895".
/// @errors  std::out_of_range or a dense layer's model_error
std::string expert_layout(const cpu_weights& weights, std::size_t layer, kernels::packed_format format);

/// An expert that is loaded: the panels of gate and up, then those of down, as an extent of a packed file has
/// them. Its bytes stay as long as this does, unloaded or not. Immutable; any thread may read.
class packed_expert {
 public:
  /// @param source  whose memory `weights` may look at
  packed_expert(std::string layout, std::shared_ptr<const kernels::expert_weights> weights,
                std::shared_ptr<const cpu_weights> source);

  const std::string& layout() const noexcept { return layout_; }

  std::size_t num_bytes() const noexcept;

  /// As extents of packed files have it. Reads everything.
  std::uint64_t checksum() const;

  /// Copies the bytes from `offset` on. They lie inside.
  void read(std::size_t offset, std::span<std::byte> out) const;

 private:
  std::string layout_;
  std::shared_ptr<const cpu_weights> source_;
  std::shared_ptr<const kernels::expert_weights> weights_;
};

/// An expert whose bytes arrive, in the memory where they will be used.
class arriving_expert {
 public:
  /// @errors  model_error where `weights` would lay an expert of `layer` out otherwise, saying both
  arriving_expert(const cpu_weights& weights, std::size_t layer, const std::string& layout);

  std::size_t num_bytes() const noexcept { return gate_up_.size() + down_.size(); }

  /// The bytes from `offset` on. They lie inside.
  void write(std::size_t offset, std::span<const std::byte> bytes);

  /// Of everything, as `packed_expert::checksum`.
  std::uint64_t checksum() const;

  /// Once, when everything has been written.
  /// @param weights  those that it was made with
  /// @errors  model_error where coded weights cannot be right
  kernels::expert_weights assemble(const cpu_weights& weights);

 private:
  mlp_shapes shapes_;
  kernels::buffer gate_up_;
  kernels::buffer down_;
};

} // namespace troupe::model
