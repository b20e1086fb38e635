// The expert side of a model on a GPU.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/experts.hpp"
#include "kernels/model/cuda/device_matrices.hpp"
#include "kernels/model/cuda/growing_memory.hpp"
#include "kernels/model/expert_backend.hpp"
#include "kernels/model/weight_source.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe::model {

/// Each expert is an immutable snapshot in device memory that a computation under way keeps alive. Rows are
/// gathered into pinned memory, computed on a stream of their own and scattered from pinned memory. Copying
/// an expert's weights takes another stream; taking and giving back device memory waits for the device.
class cuda_experts final : public expert_backend {
 public:
  /// @param device  accepted by `use_device`; the calling thread's
  /// @param set     whose kernels help to quantize
  /// @errors  device_error
  cuda_experts(int device, std::shared_ptr<const tensor_source> tensors, kernels::isa set);

  const model_config& config() const override { return tensors_->config(); }

  kernels::dtype type() const override { return kernels::dtype::bf16; }

  void load(std::size_t layer, std::size_t expert) override;
  bool unload(std::size_t layer, std::size_t expert) override;
  std::size_t num_bytes() const override;
  std::size_t expert_bytes(std::size_t layer) const override;
  std::optional<std::size_t> forward(std::size_t layer, std::span<const expert_rows> batch) override;

 private:
  /// Gate, up, down.
  using snapshot = std::shared_ptr<const device_matrices>;

  /// The experts of a batch, or the first that is not here.
  std::optional<std::size_t> hold(std::size_t layer, std::span<const expert_rows> batch,
                                  std::vector<snapshot>& held) const;
  bool has(std::size_t layer, std::size_t expert) const;
  kernels::cuda::expert_set upload_tables(const moe_spec& moe, const std::vector<snapshot>& held);
  void make_room(std::size_t rows, std::size_t experts);

  int device_;
  std::shared_ptr<const tensor_source> tensors_;
  kernels::isa set_;
  kernels::cuda::stream on_;

  std::mutex copying_; // of weights, one expert at a time
  kernels::cuda::stream copies_;

  mutable std::mutex mutex_;
  std::vector<std::vector<snapshot>> experts_; // [layer][expert], null where not loaded
  std::size_t num_bytes_ = 0;

  // Of `forward`.
  kernels::cuda::expert_pass_limits limits_;
  std::optional<kernels::cuda::expert_pass> pass_;
  growing_pinned host_tables_; // [experts of the batch]: gate and up of each, then down of each
  growing_device tables_;
  growing_pinned host_inputs_; // bf16 [rows, hidden]
  growing_device inputs_;
  growing_device outputs_; // bf16 [rows, hidden]
  growing_pinned host_outputs_;
};

} // namespace troupe::model
