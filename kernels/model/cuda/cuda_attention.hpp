// The attention side of a model on a GPU: runs its program with the kernels of kernels/cuda.
#pragma once

#include "kernels/context.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/few_rows.hpp"
#include "kernels/cuda/kv_layout.hpp"
#include "kernels/model/attention_backend.hpp"
#include "kernels/model/cuda/attention_weights.hpp"
#include "kernels/model/cuda/cuda_pass.hpp"
#include "kernels/model/cuda/cuda_sampler.hpp"
#include "kernels/model/cuda/step_graphs.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace troupe::model {

/// Uses one stream. Calls return when their work is done, so between calls the device is idle and no buffer
/// is in use. The residual stream is f32. Rounding happens where the CPU's model rounds
/// (kernels/model/README.md). Sums are added in the kernels' own order: the bits differ from the CPU's, but
/// do not depend on the rest of the batch.
class cuda_attention final : public attention_backend {
 public:
  /// @param ctx      borrowed: samples from logits
  /// @param device   accepted by `use_device`; the calling thread's
  /// @param options      its `kv_type`: bf16 or int8
  /// @param uses_graphs  runs pieces of decode steps as graphs
  /// @throws model_error, device_error
  cuda_attention(kernels::context& ctx, int device, std::shared_ptr<const tensor_source> tensors,
                 const load_options& options, const load_progress& progress, bool uses_graphs = true);

  const model_config& config() const override { return tensors_->config(); }

  kernels::dtype type() const override { return kernels::dtype::bf16; }

  std::size_t max_positions() const override { return weights_.positions; }

  std::size_t num_bytes() const override { return weights_.num_bytes; }

  std::size_t kv_block_bytes(std::size_t block_tokens) const override;
  void reserve_kv(std::size_t block_tokens, std::size_t blocks) override;
  std::unique_ptr<attention_pass> make_pass() override;
  pause begin(const micro_batch& batch, attention_pass& pass) override;
  void overlap(attention_pass& pass) override;
  pause resume(std::span<const std::byte* const> slot_rows, attention_pass& pass) override;
  void logits(attention_pass& pass, std::span<const std::uint32_t> rows, kernels::tensor_view out) override;
  void sample(attention_pass& pass, const token_requests& wanted) override;
  void copy_blocks(std::span<const block_copy> copies) override;

  const step_graphs& graphs() const { return graphs_; }

 private:
  pause run_piece(cuda_pass& pass, bool begins, const std::function<pause()>& work);
  void wait_for_piece(cuda_pass& pass);
  pause run(cuda_pass& pass);
  void run_to_combine(cuda_pass& pass);

  // One for each kind of operation.
  void compute(const cuda_norm& norm, cuda_pass& pass);
  void compute(const cuda_project& project, cuda_pass& pass);
  void compute(const cuda_attend& attend, cuda_pass& pass);
  void compute(const cuda_attend_latent& attend, cuda_pass& pass);
  void compute(const cuda_route& route, cuda_pass& pass);
  void compute(const combine_op& op, cuda_pass& pass);
  void compute(const cuda_feed_forward& mlp, cuda_pass& pass);
  void compute(const cuda_add& add, cuda_pass& pass);

  void attend_cached(kernels::cuda::attention_args args, cuda_pass& pass);
  kernels::cuda::few_rows_args head_product(const device_matrices& heads, const cuda_pass& pass) const;
  float* f32_rows(rows_of kind, std::size_t width, cuda_pass& pass);
  kernels::bfloat16* model_rows(rows_of kind, std::size_t width, cuda_pass& pass);
  std::size_t most_run_rows() const;
  std::size_t latent_heads() const;
  void normalize(const cuda_norm& norm, const float* input, std::size_t rows, kernels::bfloat16* output);
  kernels::cuda::few_rows_args product(const device_matrices& weights, std::size_t first,
                                       const cuda_pass& pass) const;
  kernels::cuda::kv_layer cache_of(std::size_t layer) const;
  const float* compute_logits(cuda_pass& pass, std::span<const std::uint32_t> rows);

  int device_;
  std::shared_ptr<const tensor_source> tensors_;
  kernels::dtype kv_type_;
  kernels::cuda::stream on_; // precedes the members that use it
  attention_weights weights_;

  // Pieces of decode steps, and the router's time in the last piece that was not a graph.
  bool uses_graphs_;
  step_graphs graphs_;
  bool measures_router_ = false;
  bool router_is_measured_ = false;
  kernels::cuda::event router_begin_;
  kernels::cuda::event router_end_;

  // The KV cache, layer after layer.
  std::size_t block_tokens_ = 0;
  std::size_t blocks_ = 0;
  kernels::cuda::device_memory cache_;
  std::vector<kernels::cuda::kv_layer> layers_;
  kernels::cuda::device_memory layer_table_; // the same, for kernels

  // Work space, reused by every call.
  growing_device projected_;       // f32 [rows, width of the product]
  growing_device query_latent_;    // f32 [rows, q_lora_rank]
  growing_device query_normed_;    // bf16 [rows, q_lora_rank]
  growing_device key_latent_;      // f32 [rows, latent + rotated key]
  growing_device still_;           // bf16 [rows, heads · nope_dim]
  growing_device attended_latent_; // bf16 [rows, heads · latent]
  growing_device query_;           // bf16 [rows, heads · head_dim]
  growing_device attended_;        // bf16 [rows, heads · head_dim]
  growing_device workspace_;       // f32, of attention
  growing_device gated_;           // bf16 [rows, intermediate]
  growing_pinned host_wanted_;
  growing_device wanted_;        // rows whose logits are requested
  growing_device last_residual_; // f32 [requested rows, hidden]
  growing_device last_normed_;   // bf16 [requested rows, hidden]
  growing_device last_items_;
  growing_device logits_; // f32 [requested rows, vocab]
  growing_pinned host_logits_;
  cuda_sampler sampler_;
  growing_pinned host_copies_;
  growing_device copies_;
};

} // namespace troupe::model
