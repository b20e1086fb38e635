// A whole model in one process, without actors: for tests and for examining a model.
#pragma once

#include "kernels/context.hpp"
#include "kernels/model/compute_backend.hpp"
#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/numerics.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace troupe::model {

/// One sequence at a time through attention and expert side, with its own KV cache.
class local_forward {
 public:
  /// Loads a model with all its experts.
  /// @throws model_error
  local_forward(std::unique_ptr<compute_backend> backend, const load_options& options);

  /// The same on the CPU, with all experts of an opened source.
  /// @param ctx  borrowed
  local_forward(kernels::context& ctx, std::shared_ptr<const cpu_weights> weights,
                const load_options& options);

  /// Opens and validates a model folder.
  /// @param max_positions  longest sequence
  local_forward(kernels::context& ctx, const std::filesystem::path& folder, dtype_choice choice,
                std::size_t max_positions);

  const model_config& config() const noexcept { return attention_->config(); }

  kernels::dtype type() const noexcept { return attention_->type(); }

  /// Forgets the sequence.
  void reset() noexcept { length_ = 0; }

  /// Appends tokens to the sequence in one micro-batch.
  /// @returns logits after each of them, [tokens.size(), vocab_size]
  /// @throws model_error  a token is outside the vocabulary, or the sequence exceeds max_positions
  std::vector<float> append(std::span<const std::uint32_t> tokens);

  /// Appends a prompt in chunks.
  /// @returns as append, for all chunks
  std::vector<float> prefill(std::span<const std::uint32_t> tokens, std::size_t chunk);

  /// Continues with the most probable token (the lowest id among equals) `count` times.
  /// @param logits  of the last position, [vocab_size]
  std::vector<std::uint32_t> greedy(std::span<const float> logits, std::size_t count);

 private:
  /// Sends the rows of a pause through the experts and resumes.
  pause run_experts();

  std::unique_ptr<attention_backend> attention_;
  std::unique_ptr<expert_backend> experts_;
  std::unique_ptr<attention_pass> pass_;
  std::vector<std::uint32_t> blocks_;
  std::vector<std::byte> expert_inputs_;  // [rows, hidden]
  std::vector<std::byte> expert_outputs_; // [rows · top_k, hidden]
  std::size_t length_ = 0;
};

} // namespace troupe::model
