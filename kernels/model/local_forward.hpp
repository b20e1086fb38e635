// A whole model in one process, without actors: for tests and for looking at a model.
#pragma once

#include "kernels/model/dense_model.hpp"
#include "kernels/model/expert_store.hpp"
#include "kernels/model/numerics.hpp"

#include <filesystem>

namespace troupe::model {

/// One sequence at a time through attention and expert side, with a KV cache of its own.
class local_forward {
 public:
  /// Opens, validates and loads a model folder with all its experts.
  /// @param ctx            borrowed
  /// @param max_positions  longest sequence
  /// @errors  model_error
  local_forward(kernels::context& ctx, const std::filesystem::path& folder, dtype_choice choice,
                std::size_t max_positions);

  /// The same with all experts of an opened source.
  local_forward(kernels::context& ctx, std::shared_ptr<const weight_source> weights,
                const load_options& options);

  const model_config& config() const noexcept { return dense_.config(); }

  kernels::dtype type() const noexcept { return dense_.type(); }

  /// Forgets the sequence.
  void reset() noexcept { length_ = 0; }

  /// Appends tokens to the sequence in one micro-batch.
  /// @returns logits behind each of them, [tokens.size(), vocab_size]
  /// @errors  model_error for a token beyond the vocabulary or a sequence beyond max_positions
  std::vector<float> append(std::span<const std::uint32_t> tokens);

  /// Appends a prompt in chunks. @returns as append, for all chunks
  std::vector<float> prefill(std::span<const std::uint32_t> tokens, std::size_t chunk);

  /// Continues with the most probable token (the lowest id among equals) `count` times.
  /// @param logits  of the last position, [vocab_size]
  std::vector<std::uint32_t> greedy(std::span<const float> logits, std::size_t count);

 private:
  /// Sends the rows of a pause through the experts and resumes.
  pause run_experts();

  kernels::context& ctx_;
  dense_model dense_;
  expert_store experts_;
  kernels::kv_cache cache_;
  std::vector<std::uint32_t> blocks_;
  forward_state state_;
  kernels::tensor expert_outputs_; // [rows · top_k, hidden]
  std::size_t length_ = 0;
};

} // namespace troupe::model
