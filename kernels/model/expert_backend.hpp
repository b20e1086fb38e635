// The interface between engines and the expert side of a model on a device.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/tensor.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace troupe::model {

class packed_expert;   // packed_expert.hpp
class arriving_expert; // packed_expert.hpp

/// Rows of one expert.
struct expert_rows {
  std::size_t expert = 0;
  /// [hidden] elements of the row type each, anywhere in host memory.
  std::span<const std::byte* const> inputs;
  /// As many addresses of outputs; outputs do not overlap each other or any input.
  std::span<std::byte* const> outputs;
};

/// Where loaded experts are.
enum class expert_residence {
  process,    ///< in memory of the process, including pinned memory
  page_cache, ///< in a mapped file, whose pages the system reclaims when memory is short
  device,     ///< in memory of a device
};

/// Weights of any set of (layer, expert) on one device. Experts may be loaded and unloaded during
/// computations, which keep those that they use. Any thread may call `load`, `unload` and the numbers; one at
/// a time may call `forward`.
class expert_backend {
 public:
  virtual ~expert_backend() = default;

  virtual const model_config& config() const = 0;

  /// Type of input and output rows: f32 or bf16.
  virtual kernels::dtype type() const = 0;

  /// Loads one expert in the layout of the kernels, on the calling thread, while others compute. Does nothing
  /// if it is loaded.
  /// @throws model_error  the model has no such layer or expert, or its bytes are damaged
  /// @throws std::bad_alloc; std::runtime_error if a device fails
  virtual void load(std::size_t layer, std::size_t expert) = 0;

  /// The bytes of a loaded expert, for another backend of this kind; null if it is not loaded, or if this
  /// device's experts cannot be used elsewhere.
  virtual std::shared_ptr<const packed_expert> packed(std::size_t layer, std::size_t expert) const;

  /// Room for an expert of `layer` whose bytes come from another backend with this `layout`.
  /// @throws model_error  this backend has another layout; std::bad_alloc
  virtual std::unique_ptr<arriving_expert> expect(std::size_t layer, const std::string& layout) const;

  /// Loads an expert from completely received bytes. Does nothing if it is loaded.
  /// @throws model_error  the bytes are invalid
  virtual void take(std::size_t layer, std::size_t expert, std::unique_ptr<arriving_expert> arrived);

  /// Forgets an expert; its memory is freed after the last computation with it.
  /// @returns whether it was loaded
  virtual bool unload(std::size_t layer, std::size_t expert) = 0;

  /// Memory for experts: of the loaded ones, plus what is kept for further ones.
  virtual std::size_t num_bytes() const = 0;

  /// Upper bound of the memory of a loaded expert of a layer; 0 for a dense layer.
  virtual std::size_t expert_bytes(std::size_t layer) const = 0;

  /// Usual memory of an expert, if some are smaller than `expert_bytes`.
  virtual std::size_t usual_expert_bytes(std::size_t layer) const { return expert_bytes(layer); }

  virtual expert_residence place() const { return expert_residence::process; }

  /// Memory that experts may take here, loaded ones included, as far as known now; empty: bounded by the
  /// host's memory.
  virtual std::optional<std::size_t> room() const { return std::nullopt; }

  /// Computes all rows of one layer in one grouped call. A row's bits do not depend on other rows. The
  /// outputs are complete on return.
  ///
  /// @returns empty, or an expert that is not loaded: then no output was written
  /// @throws std::exception  a device fails or memory runs out
  virtual std::optional<std::size_t> forward(std::size_t layer, std::span<const expert_rows> batch) = 0;
};

} // namespace troupe::model
