#include "kernels/model/forward_state.hpp"

#include "kernels/error.hpp"

namespace troupe::model {

void forward_state::assign(const micro_batch& batch) {
  kernels::expect(!batch.rows.empty(), "forward_state: a micro-batch has rows");
  tokens_.clear();
  positions_.clear();
  slots_.clear();
  attention_rows_.clear();
  for (const auto& row : batch.rows) {
    kernels::expect(row.sequence < batch.sequences.size(), "forward_state: sequence of a row exists");
    kernels::expect(row.mask_parent == batch_row::causal, "forward_state: rows are causal");
    tokens_.push_back(row.token);
    positions_.push_back(row.position);
    slots_.push_back(row.kv_slot);
    attention_rows_.push_back({row.sequence, row.position});
  }
  blocks_.clear();
  for (const auto& table : batch.sequences)
    blocks_.insert(blocks_.end(), table.begin(), table.end());
  sequences_.clear();
  std::size_t first = 0;
  for (const auto& table : batch.sequences) {
    sequences_.push_back({std::span{blocks_}.subspan(first, table.size())});
    first += table.size();
  }
  layer_ = 0;
  shared_computed_ = false;
}

} // namespace troupe::model
