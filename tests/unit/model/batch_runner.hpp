// Drives a model like the engines: micro-batches of several sequences, experts on several hosts.
#pragma once

#include "kernels/context.hpp"
#include "kernels/model/compute_backend.hpp"
#include "kernels/model/cpu_weights.hpp"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::test {

/// Tokens that one sequence adds to a micro-batch.
struct batch_part {
  std::uint32_t sequence = 0;
  std::vector<std::uint32_t> tokens;
};

/// Logits of every row, in the order of the rows: [rows][vocab].
using batch_logits = std::vector<std::vector<float>>;

class batch_runner {
 public:
  /// @param num_hosts  experts are distributed over this many hosts
  /// @param kv_type    of the KV cache; empty: the type that the model computes in
  explicit batch_runner(std::unique_ptr<model::compute_backend> backend, std::size_t num_hosts = 1,
                        std::optional<kernels::dtype> kv_type = {});

  /// The same on the CPU.
  /// @param ctx  borrowed
  batch_runner(kernels::context& ctx, std::shared_ptr<const model::cpu_weights> weights,
               std::size_t num_hosts = 1, std::optional<kernels::dtype> kv_type = {});

  /// Runs one micro-batch to the end.
  batch_logits run(const std::vector<batch_part>& parts);

  /// Starts sequence `to` as a copy of `from`, in its own blocks.
  void fork(std::uint32_t from, std::uint32_t to);

  std::unique_ptr<model::attention_pass> make_pass() { return attention_->make_pass(); }

  /// Embeds a micro-batch and stops at the first pause.
  model::pause begin(const std::vector<batch_part>& parts, model::attention_pass& pass);

  /// Calls the experts, once per host and the second time in reverse, and resumes.
  model::pause step(model::attention_pass& pass, bool overlap = true);

  /// @param num_rows  of the pass
  batch_logits logits(model::attention_pass& pass, std::size_t num_rows);

  /// Blocks that all sequences hold together.
  std::size_t num_blocks() const;

  model::attention_backend& attention() { return *attention_; }

 private:
  std::size_t host_of(std::size_t expert) const { return expert % hosts_.size(); }

  std::unique_ptr<model::attention_backend> attention_;
  std::vector<std::unique_ptr<model::expert_backend>> hosts_;

  /// Blocks of positions 0.. for some layers. Those before `first` were given back.
  struct block_table {
    std::vector<std::uint32_t> blocks;
    std::size_t first = 0;
  };

  std::uint32_t take_block();
  void give_back_unseen(std::uint32_t sequence);
  void grow(std::uint32_t sequence, std::uint32_t length);

  std::map<std::uint32_t, std::vector<block_table>> tables_; // of each sequence
  std::map<std::uint32_t, std::uint32_t> lengths_;
  std::vector<std::uint32_t> free_blocks_; // the last one is taken first
  std::uint32_t next_block_ = 0;
};

} // namespace troupe::test
