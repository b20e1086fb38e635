// Which of the choices of a plan are faster on this machine, measured.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/gemm/plan.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe::kernels {

/// Weights of one format as a model has them, and the rows that meet them.
struct calibration_weights {
  packed_format format = packed_format::bf16_pair;
  row_quant rows = row_quant::none;
  /// Of input and output rows.
  dtype row_type = dtype::bf16;
  /// Gated experts; none where `ffn` is 0.
  std::size_t hidden = 0;
  std::size_t ffn = 0;

  /// Of a layer's other matrices, [outputs, inputs].
  struct matrix {
    std::size_t outputs = 0;
    std::size_t inputs = 0;

    friend bool operator==(const matrix&, const matrix&) = default;
  };

  std::vector<matrix> dense{};
  /// Layers' worth of such weights that the model has; 0: more than caches hold.
  std::size_t copies = 0;

  product_kind kind() const { return kind_of(format, rows); }

  friend bool operator==(const calibration_weights&, const calibration_weights&) = default;
};

struct calibration_options {
  /// Of supported and proved sets, worst first, the default plan of the last of which is what others must
  /// beat.
  std::span<const isa> sets{};
  /// All in all, from making the weights on.
  std::chrono::milliseconds budget{1500};
  /// Weights that are gone round: more than caches hold, so that every product reads memory.
  std::size_t num_bytes = std::size_t{256} << 20;
  /// Looks at each choice, at most.
  std::size_t most_rounds = 25;
  /// Sizes of tiles and look-ahead, too, not only kernels.
  bool sizes = false;
  /// BF16 weights may be kept coded or plain: both are measured, and the plan says which.
  bool may_code = false;
};

/// What was measured of one choice.
struct calibration_cell {
  product_kind kind = product_kind::f32;
  std::size_t rows = 0;
  product_regime regime{};
  /// Of a layer's matrices, the fastest run.
  double seconds = 0.0;
  double num_bytes = 0.0; ///< of weights
  bool is_default = false;
  bool is_chosen = false;
};

struct calibration_result {
  kernel_plan plan;
  std::vector<calibration_cell> cells;
  /// Some choices were not looked at: the machine is too slow, or too busy, for the budget. The plan is the
  /// default one then.
  bool is_incomplete = false;
};

/// Whether BF16 weights are faster with coded exponents than plain by more than chance: in the geometric mean
/// of the chosen kernels' times for up to 8 rows.
/// @returns nothing where not both were measured
std::optional<bool> is_coding_faster(std::span<const calibration_cell> cells);

/// Each kernel that a plan may name for such weights, for as many rows as it takes; once where sets share its
/// code.
/// @param sets  supported ones, worst first
std::vector<product_regime> kernels_for(product_kind kind, std::span<const isa> sets);

/// Runs products of the model's shapes with every kernel that could, in turn, and takes for each number of
/// rows what is faster than the default by more than chance.
/// @threads the pool's, and the caller; nothing else should compute meanwhile
calibration_result calibrate(thread_pool& pool, std::span<const calibration_weights> weights,
                             const calibration_options& options);

} // namespace troupe::kernels
