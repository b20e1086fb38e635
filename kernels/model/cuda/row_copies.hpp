// Rows of an expert batch on their way to a device and back.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/model/cuda/growing_memory.hpp"
#include "kernels/model/expert_backend.hpp"

#include <cstddef>
#include <deque>
#include <vector>

namespace troupe::model {

/// Gathers rows from wherever they lie into pinned memory, and hands results out from there. A large batch
/// goes in pieces, by streams of its own: while a piece is computed, the next one is gathered and copied, and
/// the last one comes back. A small batch goes at once, by the stream that computes.
///
/// For each batch: `begin`; for each piece `add` for each of its experts, `send`, the computation, `fetch`;
/// then `finish`. Where an error ends a batch early, `wait` for what still runs before rows go.
class row_copies {
 public:
  /// @param piece_bytes  of inputs, that a piece should have at least
  explicit row_copies(std::size_t piece_bytes) : piece_bytes_(piece_bytes) {}

  /// Makes room for a batch, forgets the last one.
  /// @errors device_error
  void begin(std::size_t rows, std::size_t row_bytes);

  /// Rows that a piece should have; all of a small batch.
  std::size_t rows_of_piece() const { return rows_of_piece_; }

  /// Whether the batch is one piece.
  bool goes_at_once() const { return rows_of_piece_ == rows_; }

  /// Gathers an expert's rows behind those before. @param rows  and what it names stay until `finish`
  void add(const expert_rows& rows);

  /// Has what was added since the last call copied; `compute` waits for it.
  void send(const kernels::cuda::stream& compute);

  /// Has the results of the same rows copied once `compute` is there.
  void fetch(const kernels::cuda::stream& compute);

  /// Hands out results, piece after piece as they come.
  /// @errors device_error also for what the computation did wrong
  void finish();

  /// Until nothing is copied any more; never throws.
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
  std::deque<piece> pieces_; // kept from batch to batch; after the streams that their events name
  std::size_t num_pieces_ = 0;
};

} // namespace troupe::model
