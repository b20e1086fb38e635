#include "kernels/model/cuda/row_copies.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::model {

namespace {

// More pieces overlap better, but each has too few rows to fill the GPU.
constexpr std::size_t most_pieces = 4;

} // namespace

void row_copies::begin(std::size_t rows, std::size_t row_bytes) {
  rows_ = rows;
  row_bytes_ = row_bytes;
  const auto least = std::max<std::size_t>(piece_bytes_ / row_bytes, 1);
  rows_of_piece_ = rows < 2 * least ? rows : std::max(least, (rows + most_pieces - 1) / most_pieces);
  added_.clear();
  rows_added_ = 0;
  rows_sent_ = 0;
  rows_fetched_ = 0;
  num_pieces_ = 0;
  host_inputs_.reserve<std::byte>(rows * row_bytes);
  inputs_.reserve<std::byte>(rows * row_bytes);
  outputs_.reserve<std::byte>(rows * row_bytes);
  host_outputs_.reserve<std::byte>(rows * row_bytes);
}

void row_copies::add(const expert_rows& rows) {
  auto* to = host_inputs_.as<std::byte>() + rows_added_ * row_bytes_;
  for (const auto* row : rows.inputs) {
    std::memcpy(to, row, row_bytes_);
    to += row_bytes_;
  }
  rows_added_ += rows.inputs.size();
  added_.push_back(&rows);
}

void row_copies::send(const kernels::cuda::stream& compute) {
  const auto begin = rows_sent_ * row_bytes_;
  const auto num_bytes = (rows_added_ - rows_sent_) * row_bytes_;
  const auto& by = goes_at_once() ? compute : arrivals_;
  by.copy_to_device(inputs() + begin, host_inputs_.as<std::byte>() + begin, num_bytes);
  rows_sent_ = rows_added_;
  if (num_pieces_ == pieces_.size())
    pieces_.emplace_back();
  auto& sent = pieces_[num_pieces_++];
  sent.end = added_.size();
  if (goes_at_once())
    return;
  sent.arrived.record(by);
  compute.wait(sent.arrived);
}

void row_copies::fetch(const kernels::cuda::stream& compute) {
  auto& sent = pieces_[num_pieces_ - 1];
  const auto begin = rows_fetched_ * row_bytes_;
  const auto num_bytes = (rows_sent_ - rows_fetched_) * row_bytes_;
  const auto& by = goes_at_once() ? compute : returns_;
  if (!goes_at_once()) {
    sent.computed.record(compute);
    by.wait(sent.computed);
  }
  by.copy_to_host(host_outputs_.as<std::byte>() + begin, outputs() + begin, num_bytes);
  sent.returned.record(by);
  rows_fetched_ = rows_sent_;
}

void row_copies::finish() {
  const auto* from = host_outputs_.as<std::byte>();
  std::size_t next = 0;
  for (std::size_t i = 0; i < num_pieces_; ++i) {
    pieces_[i].returned.synchronize();
    for (; next < pieces_[i].end; ++next)
      for (auto* row : added_[next]->outputs) {
        std::memcpy(row, from, row_bytes_);
        from += row_bytes_;
      }
  }
}

void row_copies::wait() const noexcept {
  const work_ends_here arrived(arrivals_);
  const work_ends_here returned(returns_);
}

} // namespace troupe::model
