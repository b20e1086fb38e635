// The attention side of a model on a GPU: the layer graph over the kernels of kernels/cuda.
#pragma once

#include "kernels/context.hpp"
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

/// One stream does all of it; a call returns when its work is done, so between calls the device is idle and
/// no buffer is in use. The residual stream is f32; rounding happens where the CPU's model rounds
/// (kernels/model/README.md), and sums are added in the order that the kernels define: other bits than the
/// CPU's, and the same whatever else is in the batch.
class cuda_attention final : public attention_backend {
 public:
  /// @param ctx      borrowed: samples from logits
  /// @param device   accepted by `use_device`; the calling thread's
  /// @param options      its `kv_type`: bf16 or int8
  /// @param uses_graphs  gives pieces of decode steps to the device as graphs
  /// @errors  model_error; device_error
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
  pause run_from(std::size_t layer, cuda_pass& pass);
  void attend(std::size_t layer, cuda_pass& pass);
  void attend_cached(std::size_t layer, cuda_pass& pass);
  std::size_t most_run_rows() const;
  void route(std::size_t layer, cuda_pass& pass);
  void run_mlp(std::size_t layer, cuda_pass& pass);
  void add_mlp(std::size_t layer, cuda_pass& pass);
  void normalize(const norm_spec& spec, const device_vector<float>& weight, const float* input,
                 std::size_t rows, kernels::bfloat16* output);
  kernels::cuda::few_rows_args product(const device_matrices& weights, std::size_t first,
                                       const cuda_pass& pass) const;
  kernels::cuda::kv_layer cache_of(std::size_t layer) const;
  const float* compute_logits(cuda_pass& pass, std::span<const std::uint32_t> rows);

  int device_;
  std::shared_ptr<const tensor_source> tensors_;
  kernels::dtype kv_type_;
  kernels::cuda::stream on_; // before everything that it works on
  attention_weights weights_;

  // Pieces of decode steps, and what the router of the last piece that was not a graph took.
  bool uses_graphs_;
  step_graphs graphs_;
  bool measures_router_ = false;
  bool router_is_measured_ = false;
  kernels::cuda::event router_begin_;
  kernels::cuda::event router_end_;

  // The KV cache: layer after layer.
  std::size_t block_tokens_ = 0;
  std::size_t blocks_ = 0;
  kernels::cuda::device_memory cache_;
  std::vector<kernels::cuda::kv_layer> layers_;
  kernels::cuda::device_memory layer_table_; // the same, for kernels

  // What every call uses anew.
  growing_device qkv_;       // f32 [rows, (heads + 2 kv_heads) · head_dim]
  growing_device query_;     // bf16 [rows, heads · head_dim]
  growing_device attended_;  // bf16 [rows, heads · head_dim]
  growing_device workspace_; // f32, of attention
  growing_device gated_;     // bf16 [rows, intermediate]
  growing_pinned host_wanted_;
  growing_device wanted_;        // rows whose logits are asked for
  growing_device last_residual_; // f32 [rows asked for, hidden]
  growing_device last_normed_;   // bf16 [rows asked for, hidden]
  growing_device last_items_;
  growing_device logits_; // f32 [rows asked for, vocab]
  growing_pinned host_logits_;
  cuda_sampler sampler_;
  growing_pinned host_copies_;
  growing_device copies_;
};

} // namespace troupe::model
