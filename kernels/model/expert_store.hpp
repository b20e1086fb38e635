// The expert side of a model: weights of the routed experts that a process hosts, and their computation.
#pragma once

#include "kernels/context.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/model/weight_source.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace troupe::model {

/// Rows for one expert.
struct expert_rows {
  std::size_t expert = 0;
  /// [hidden] elements of the row type each, anywhere.
  std::span<const std::byte* const> inputs;
  /// As many, where the outputs go; they overlap neither one another nor any input.
  std::span<std::byte* const> outputs;
};

/// Any set of (layer, expert). Experts come and go while others compute: each is an immutable snapshot that a
/// computation under way keeps alive. All members may be called from any thread.
class expert_store {
 public:
  /// Loads nothing yet: only experts that are loaded are asked for.
  explicit expert_store(std::shared_ptr<const weight_source> weights);

  /// Reads one expert into the layout that the kernels stream, on the calling thread, while others compute.
  /// An expert that is there already is left alone.
  /// @errors  model_error when the model has no such layer or expert, or its bytes are damaged;
  /// std::bad_alloc
  void load(std::size_t layer, std::size_t expert);

  /// Forgets an expert; its memory goes when the last computation with it ends. @returns whether it was there
  bool unload(std::size_t layer, std::size_t expert);

  bool has(std::size_t layer, std::size_t expert) const;

  /// Memory of the experts that are loaded.
  std::size_t num_bytes() const;

  /// Memory that one expert of a layer takes when loaded, at most; 0 for a dense layer.
  std::size_t expert_bytes(std::size_t layer) const;

  const model_config& config() const noexcept { return weights_->config(); }

  /// Type of input and output rows.
  kernels::dtype type() const noexcept { return weights_->type(); }

  /// Computes all rows of one layer in one grouped call.
  ///
  /// @returns nothing, or an expert that is not here: then no output was written
  /// @threads all of the context's
  std::optional<std::size_t> forward(kernels::context& ctx, std::size_t layer,
                                     std::span<const expert_rows> batch) const;

 private:
  using snapshot = std::shared_ptr<const kernels::expert_weights>;

  std::shared_ptr<const weight_source> weights_;
  mutable std::mutex mutex_;
  std::vector<std::vector<snapshot>> experts_; // [layer][expert], null where not loaded
  std::size_t num_bytes_ = 0;
};

} // namespace troupe::model
