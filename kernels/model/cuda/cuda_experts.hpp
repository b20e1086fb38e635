// The expert side of a model on a GPU.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/experts.hpp"
#include "kernels/model/cuda/device_matrices.hpp"
#include "kernels/model/cuda/expert_slabs.hpp"
#include "kernels/model/cuda/expert_slots.hpp"
#include "kernels/model/cuda/growing_memory.hpp"
#include "kernels/model/cuda/pinned_matrices.hpp"
#include "kernels/model/cuda/row_copies.hpp"
#include "kernels/model/expert_backend.hpp"
#include "kernels/model/weight_source.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe::model {

/// Each expert is an immutable snapshot, which running computations keep alive. Rows are gathered into pinned
/// memory, computed on one stream and scattered from pinned memory. Copies of experts' weights use another
/// stream.
///
/// Experts are in device memory, in slabs for many of one size (`expert_slabs`). If device memory may hold
/// only some of them, all are in pinned memory, and a batch is computed in waves: first the experts with a
/// copy on the device, then a few at a time, which are copied while the previous wave computes
/// (`expert_slots`).
class cuda_experts final : public expert_backend {
 public:
  /// Takes some 0.15 ms to reach the device.
  static constexpr std::size_t default_piece_bytes = std::size_t{8} << 20;

  /// @param device  accepted by `use_device`; the calling thread's
  /// @param set     its kernels help to quantize
  /// @param memory  device memory for experts' weights, in bytes. 0, or enough for all experts of the model:
  /// all loaded experts are on the device
  /// @param piece_bytes  batches with at least twice as many bytes of rows are sent in pieces (row_copies)
  /// @throws device_error; model_error if `memory` holds no expert
  cuda_experts(int device, std::shared_ptr<const tensor_source> tensors, kernels::isa set,
               std::size_t memory = 0, std::size_t piece_bytes = default_piece_bytes);

  const model_config& config() const override { return tensors_->config(); }

  kernels::dtype type() const override { return kernels::dtype::bf16; }

  void load(std::size_t layer, std::size_t expert) override;
  bool unload(std::size_t layer, std::size_t expert) override;
  std::size_t num_bytes() const override;
  std::size_t expert_bytes(std::size_t layer) const override;

  expert_residence place() const override {
    return slots_ ? expert_residence::process : expert_residence::device;
  }

  /// Device memory that is free or holds experts, minus that for computing. Empty if experts are in pinned
  /// memory.
  std::optional<std::size_t> room() const override;

  std::optional<std::size_t> forward(std::size_t layer, std::span<const expert_rows> batch) override;

  /// Null: experts are in device memory.
  const expert_slots* slots() const { return slots_ ? &*slots_ : nullptr; }

 private:
  /// Gate, up if gated, down: in one of the two.
  struct loaded_expert {
    std::uint64_t id = 0; // of this load, from 1
    std::optional<expert_slabs::place> place;
    std::optional<device_matrices> on_device; // on the device
    std::optional<pinned_matrices> on_host;

    std::size_t pinned_bytes() const { return on_host ? on_host->num_bytes() : 0; }
  };

  using snapshot = std::shared_ptr<const loaded_expert>;

  /// The rows of an expert: the expert, and their place among all rows.
  struct batch_part {
    const expert_rows* rows = nullptr;
    snapshot expert;
  };

  /// The parts of a batch that have rows, or the first expert that is not loaded here.
  std::optional<std::size_t> hold(std::size_t layer, std::span<const expert_rows> batch,
                                  std::vector<batch_part>& held) const;
  bool has(std::size_t layer, std::size_t expert) const;
  std::size_t matrices_bytes(std::size_t layer) const;
  std::size_t working_bytes() const;
  void compute(std::size_t layer, std::span<const batch_part> parts, std::size_t rows);
  std::size_t begin_wave(const moe_spec& moe, std::span<const batch_part> parts, std::size_t first_part,
                         std::size_t rows_of_piece);
  void run_wave(const moe_spec& moe, std::span<const batch_part> wave, std::size_t first_part,
                std::size_t first_row);
  bool add_to_table(const loaded_expert& expert, std::span<kernels::cuda::weight_matrix> first,
                    kernels::cuda::weight_matrix& second);
  void make_room(std::size_t rows, std::size_t experts);

  int device_;
  std::shared_ptr<const tensor_source> tensors_;
  kernels::isa set_;
  kernels::cuda::stream on_;

  std::mutex copying_; // of weights, one expert at a time
  kernels::cuda::stream copies_;

  std::map<std::size_t, expert_slabs> slabs_; // by the bytes of an expert; none where they are pinned

  mutable std::mutex mutex_;
  std::vector<std::vector<snapshot>> experts_; // [layer][expert], null where not loaded
  std::size_t pinned_bytes_ = 0;
  std::uint64_t num_loads_ = 0;

  // For `forward`.
  std::optional<expert_slots> slots_; // empty: all experts are in device memory
  kernels::cuda::expert_pass_limits limits_;
  std::optional<kernels::cuda::expert_pass> pass_;
  growing_pinned host_tables_; // [3 · parts], one run per wave: gate (and up) of each, then down of each
  growing_device tables_;
  row_copies rows_; // bf16 [rows, hidden]
};

} // namespace troupe::model
