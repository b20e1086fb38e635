// The expert side of a model on some device: what engines call, and nothing of how it is computed.
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
class arriving_expert; // likewise

/// Rows for one expert.
struct expert_rows {
  std::size_t expert = 0;
  /// [hidden] elements of the row type each, anywhere in host memory.
  std::span<const std::byte* const> inputs;
  /// As many, where the outputs go; they overlap neither one another nor any input.
  std::span<std::byte* const> outputs;
};

/// Weights of any set of (layer, expert) on one device. Experts come and go while others compute: a
/// computation under way keeps those that it uses. `load`, `unload` and the numbers may be called from any
/// thread; `forward` by one at a time.
class expert_backend {
 public:
  virtual ~expert_backend() = default;

  virtual const model_config& config() const = 0;

  /// Type of input and output rows: f32 or bf16.
  virtual kernels::dtype type() const = 0;

  /// Reads one expert into the layout that the kernels stream, on the calling thread, while others compute.
  /// An expert that is there already is left alone.
  /// @errors  model_error when the model has no such layer or expert, or its bytes are damaged;
  ///          std::bad_alloc; std::runtime_error where a device fails
  virtual void load(std::size_t layer, std::size_t expert) = 0;

  /// The bytes of an expert that is loaded, for another backend of this kind: null where it is not loaded, or
  /// where experts of this device are of no use to others.
  virtual std::shared_ptr<const packed_expert> packed(std::size_t layer, std::size_t expert) const;

  /// Room for an expert of `layer` whose bytes come from another backend, which has them as `layout`.
  /// @errors  model_error where this one would lay it out otherwise; std::bad_alloc
  virtual std::unique_ptr<arriving_expert> expect(std::size_t layer, const std::string& layout) const;

  /// Loads an expert from bytes that have all arrived. One that is there already is left alone.
  /// @errors  model_error where they make no sense
  virtual void take(std::size_t layer, std::size_t expert, std::unique_ptr<arriving_expert> arrived);

  /// Forgets an expert; its memory goes when the last computation with it ends. @returns whether it was there
  virtual bool unload(std::size_t layer, std::size_t expert) = 0;

  /// Memory that is taken for experts: of those that are loaded, and what is kept for the next ones.
  virtual std::size_t num_bytes() const = 0;

  /// Memory that one expert of a layer takes when loaded, at most; 0 for a dense layer.
  virtual std::size_t expert_bytes(std::size_t layer) const = 0;

  /// Memory that experts may take here, those that are loaded among them, as far as is known now; nothing:
  /// what the host has.
  virtual std::optional<std::size_t> room() const { return std::nullopt; }

  /// Computes all rows of one layer in one grouped call. A row's bits do not depend on other rows. The
  /// outputs are there when it returns.
  ///
  /// @returns nothing, or an expert that is not here: then no output was written
  /// @errors  std::exception where a device fails or memory runs out
  virtual std::optional<std::size_t> forward(std::size_t layer, std::span<const expert_rows> batch) = 0;
};

} // namespace troupe::model
