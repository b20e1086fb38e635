// Copies rows of an expert batch to a device and back.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/model/cuda/growing_memory.hpp"
#include "kernels/model/expert_backend.hpp"

#include <cstddef>
#include <deque>
#include <vector>

namespace troupe::model {

/// Gathers rows into pinned memory, and scatters results from there. A large batch is sent in pieces, on
/// separate streams: while a piece is computed, the next one is gathered and copied, and the previous one
/// returns. A small batch is sent as a whole, on the computing stream.
///
/// For each batch: `begin`; for each piece `add` for each of its experts, `send`, the computation, `fetch`;
/// then `finish`. If an error ends a batch early, call `wait` for running copies before the rows are
/// destroyed.
class row_copies {
 public:
  /// @param piece_bytes  least bytes of a piece's inputs
  explicit row_copies(std::size_t piece_bytes) : piece_bytes_(piece_bytes) {}

  /// Makes room for a batch, and forgets the last one.
  /// @throws device_error
  void begin(std::size_t rows, std::size_t row_bytes);

  /// Wanted rows of a piece; all rows for a small batch.
  std::size_t rows_of_piece() const { return rows_of_piece_; }

  /// Whether the batch is one piece.
  bool goes_at_once() const { return rows_of_piece_ == rows_; }

  /// Gathers an expert's rows after the previous ones.
  /// @param rows  they, and what they refer to, stay until `finish`
  void add(const expert_rows& rows);

  /// Starts copying what was added since the last call; `compute` waits for it.
  void send(const kernels::cuda::stream& compute);

  /// Starts copying the results of the same rows once `compute` gets there.
  void fetch(const kernels::cuda::stream& compute);

  /// Scatters results, piece after piece as they arrive.
  /// @throws device_error, also for failures of the computation
  void finish();

  /// Waits until all copies are done; never throws.
  void wait() const noexcept;

  /// [rows, row bytes] in device memory.
  std::byte* inputs() const { return inputs_.as<std::byte>(); }

  std::byte* outputs() const { return outputs_.as<std::byte>(); }

 private:
  struct piece {
    kernels::cuda::event arrived;
    kernels::cuda::event computed;
    kernels::cuda::event returned;
    std::size_t end = 0; // in `added_`
  };

  std::size_t piece_bytes_;
  std::size_t rows_ = 0;
  std::size_t row_bytes_ = 0;
  std::size_t rows_of_piece_ = 0;
  std::vector<const expert_rows*> added_;
  std::size_t rows_added_ = 0;
  std::size_t rows_sent_ = 0;
  std::size_t rows_fetched_ = 0;
  growing_pinned host_inputs_;
  growing_device inputs_;
  growing_device outputs_;
  growing_pinned host_outputs_;
  kernels::cuda::stream arrivals_;
  kernels::cuda::stream returns_;
  std::deque<piece> pieces_; // reused for each batch; after the streams that their events use
  std::size_t num_pieces_ = 0;
};

} // namespace troupe::model
