// Measures which choices of a plan are faster on this machine.
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

/// A model's weights of one format, and the rows that are multiplied with them.
struct calibration_weights {
  packed_format format = packed_format::bf16_pair;
  row_quant rows = row_quant::none;
  /// Of input and output rows.
  dtype row_type = dtype::bf16;
  /// Experts; none where `ffn` is 0.
  std::size_t hidden = 0;
  std::size_t ffn = 0;
  bool gated = true;

  /// A layer's other matrices, [outputs, inputs].
  struct matrix {
    std::size_t outputs = 0;
    std::size_t inputs = 0;

    friend bool operator==(const matrix&, const matrix&) = default;
  };

  std::vector<matrix> dense{};
  /// How many layers of such weights the model has; 0: more than caches hold.
  std::size_t copies = 0;

  product_kind kind() const { return kind_of(format, rows); }

  friend bool operator==(const calibration_weights&, const calibration_weights&) = default;
};

struct calibration_options {
  /// Supported sets that passed the self test, worst first. Other choices must beat the default plan of the
  /// last one.
  std::span<const isa> sets{};
  /// Time limit, making the weights included.
  std::chrono::milliseconds budget{1500};
  /// Size of the weights that are cycled through: more than caches hold, so that every product reads memory.
  std::size_t num_bytes = std::size_t{256} << 20;
  /// Most measurements of each choice.
  std::size_t most_rounds = 25;
  /// Whether sizes of tiles and look-ahead are measured, too.
  bool sizes = false;
  /// Whether BF16 weights may be kept coded or plain: then both are measured, and the plan tells which.
  bool may_code = false;
};

/// The measurement of one choice.
struct calibration_cell {
  product_kind kind = product_kind::f32;
  std::size_t rows = 0;
  product_regime regime{};
  /// Fastest run over a layer's matrices.
  double seconds = 0.0;
  double num_bytes = 0.0; ///< of weights
  bool is_default = false;
  bool is_chosen = false;
};

struct calibration_result {
  kernel_plan plan;
  std::vector<calibration_cell> cells;
  /// Some choices were not measured: the machine is too slow or too busy for the budget. The plan is then the
  /// default.
  bool is_incomplete = false;
};

/// Whether BF16 weights are faster with coded exponents than plain by more than chance: in the geometric mean
/// of the chosen kernels' times for up to 8 rows.
/// @returns empty if one of them was not measured
std::optional<bool> is_coding_faster(std::span<const calibration_cell> cells);

/// Every kernel that a plan may name for such weights, with its largest number of rows; once if sets share
/// its code.
/// @param sets  supported ones, worst first
std::vector<product_regime> kernels_for(product_kind kind, std::span<const isa> sets);

/// Runs products of the model's shapes with every possible kernel in turn. For each number of rows it takes a
/// choice that is faster than the default by more than chance.
/// @threads the pool's, and the caller; nothing else should compute meanwhile
calibration_result calibrate(thread_pool& pool, std::span<const calibration_weights> weights,
                             const calibration_options& options);

} // namespace troupe::kernels
