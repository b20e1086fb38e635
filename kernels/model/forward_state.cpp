#include "kernels/model/forward_state.hpp"

#include "kernels/error.hpp"

namespace troupe::model {

void forward_state::assign(const micro_batch& batch, std::size_t num_tables, std::size_t block_tokens) {
  const auto num_sequences = batch.sequences.size();
  kernels::expect(!batch.rows.empty(), "forward_state: a micro-batch has rows");
  kernels::expect(batch.further_tables.size() == (num_tables - 1) * num_sequences,
                  "forward_state: every sequence has all tables");
  tokens_.clear();
  positions_.clear();
  attention_rows_.clear();
  for (const auto& row : batch.rows) {
    kernels::expect(row.sequence < num_sequences, "forward_state: sequence of a row exists");
    tokens_.push_back(row.token);
    positions_.push_back(row.position);
    attention_rows_.push_back({row.sequence, row.position});
  }
  tables_.resize(num_tables);
  for (std::size_t t = 0; t < num_tables; ++t) {
    const auto given =
        t == 0 ? batch.sequences : batch.further_tables.subspan((t - 1) * num_sequences, num_sequences);
    auto& [slots, blocks, sequences] = tables_[t];
    blocks.clear();
    for (const auto& table : given)
      blocks.insert(blocks.end(), table.begin(), table.end());
    sequences.clear();
    std::size_t first = 0;
    for (const auto& table : given) {
      sequences.push_back({std::span{blocks}.subspan(first, table.size())});
      first += table.size();
    }
    slots.clear();
    for (const auto& row : batch.rows) {
      const auto block = row.position / block_tokens;
      kernels::expect(t == 0 || block < given[row.sequence].size(), "forward_state: a block of every row");
      slots.push_back(t == 0 ? row.kv_slot
                             : static_cast<std::uint32_t>(given[row.sequence][block] * block_tokens
                                                          + row.position % block_tokens));
    }
  }
  at_ = {};
}

kernels::growing_rows& forward_state::buffer(rows_of kind) {
  switch (kind) {
  case rows_of::residual:
    return residual_;
  case rows_of::normed:
    return normed_;
  case rows_of::projected:
    return projected_;
  case rows_of::query_latent:
    return query_latent_;
  case rows_of::query_normed:
    return query_normed_;
  case rows_of::key_latent:
    return key_latent_;
  case rows_of::attended:
    return attended_;
  case rows_of::mlp_output:
    break;
  }
  return mlp_output_;
}

} // namespace troupe::model
