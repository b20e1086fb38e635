// One expert's packed bytes for transfer between processes: read where it is loaded, assembled at the
// destination.
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
#include <vector>

namespace troupe::model {

/// Names the memory layout of an expert of `layer` in `format`: format, shape, the layout's version, the
/// arithmetic revision and the config's id. Processes with equal names may exchange the bytes. E.g.
/// "bf16-coded 64x128 v2 r9 config 81985529216486895".
/// @throws std::out_of_range, or a dense layer's model_error
std::string expert_layout(const cpu_weights& weights, std::size_t layer, kernels::packed_format format);

/// A loaded expert: the panels of gate and up, those of down, and its biases, like an extent of a packed
/// file. Keeps its bytes alive, even after unloading. Immutable; any thread may read.
class packed_expert {
 public:
  /// @param source  owns the memory that `weights` may refer to
  packed_expert(std::string layout, std::shared_ptr<const kernels::expert_weights> weights,
                std::shared_ptr<const cpu_weights> source);

  const std::string& layout() const noexcept { return layout_; }

  std::size_t num_bytes() const noexcept;

  /// As in extents of packed files. Reads everything.
  std::uint64_t checksum() const;

  /// Copies the bytes from `offset` on, which must be inside.
  void read(std::size_t offset, std::span<std::byte> out) const;

 private:
  std::string layout_;
  std::shared_ptr<const cpu_weights> source_;
  std::shared_ptr<const kernels::expert_weights> weights_;
};

/// An expert that is being received, in its final memory.
class arriving_expert {
 public:
  /// @throws model_error naming both layouts, if `weights` has another one for experts of `layer`
  arriving_expert(const cpu_weights& weights, std::size_t layer, const std::string& layout);

  std::size_t num_bytes() const noexcept { return shapes_.bytes(); }

  /// Writes bytes from `offset` on, which must be inside.
  void write(std::size_t offset, std::span<const std::byte> bytes);

  /// Of all bytes, as `packed_expert::checksum`.
  std::uint64_t checksum() const;

  /// Called once, after all bytes were written.
  /// @param weights  those of the constructor
  /// @throws model_error  coded weights are invalid
  kernels::expert_weights assemble(const cpu_weights& weights);

 private:
  std::size_t layer_ = 0;
  mlp_shapes shapes_;
  kernels::buffer gate_up_;
  kernels::buffer down_;
  std::vector<float> biases_;
};

} // namespace troupe::model
