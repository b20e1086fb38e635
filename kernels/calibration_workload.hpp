// The workload of calibration: layers of loaded weights, and rows. Memory traffic is that of real steps: more
// weights than caches hold, visited cyclically.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/buffer.hpp"
#include "kernels/calibration.hpp"
#include "kernels/context.hpp"
#include "kernels/expert_ffn.hpp"

namespace troupe::kernels {

/// The most rows that a workload can be visited with.
inline constexpr std::size_t most_calibrated_rows = 192;

/// Layers of one format, visited cyclically, and rows to multiply with them.
class calibration_workload {
 public:
  /// @param num_bytes  of weights, at least two layers
  calibration_workload(thread_pool& pool, const calibration_weights& weights, std::size_t num_bytes);

  product_kind kind() const { return weights_.kind(); }

  /// Whether all weights have the requested format: some cannot be coded.
  bool is_as_asked() const;

  double bytes_of_layer() const { return static_cast<double>(layers_.front().num_bytes()); }

  /// Runs layers for 2.5 ms; fewer if each takes longer than `hopeless_seconds`.
  /// @returns seconds of the fastest run
  double visit(context& ctx, std::size_t rows, double hopeless_seconds);

 private:
  /// One layer's weights of one format.
  struct layer {
    expert_weights expert;
    std::vector<packed_matrix> dense;

    std::size_t num_bytes() const;
    std::vector<const packed_matrix*> matrices() const;
  };

  class noise;

  static packed_matrix any_weights(const packed_shape& shape, row_quant rows, noise& random);
  static layer make_layer(const calibration_weights& weights, noise& random);
  void copy_first(thread_pool& pool, std::size_t count);
  void fill_input(noise& random);
  void run(context& ctx, std::size_t rows);

  calibration_weights weights_;
  std::vector<layer> layers_;
  buffer input_;
  buffer output_;
  std::vector<const std::byte*> from_;
  std::vector<std::byte*> to_;
  std::size_t next_ = 0;
};

} // namespace troupe::kernels
