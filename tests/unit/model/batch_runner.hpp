// A model driven as the engines drive it: micro-batches of several sequences, experts on several hosts.
#pragma once

#include "kernels/model/dense_model.hpp"
#include "kernels/model/expert_store.hpp"
#include "kernels/model/numerics.hpp"

#include <map>

namespace troupe::test {

/// Tokens that one sequence adds to a micro-batch.
struct batch_part {
  std::uint32_t sequence = 0;
  std::vector<std::uint32_t> tokens;
};

/// Logits behind every row, in the order of the rows: [rows][vocab].
using batch_logits = std::vector<std::vector<float>>;

class batch_runner {
 public:
  /// @param num_hosts  experts are dealt out to so many stores
  /// @param kv_type    of the KV cache; nothing: `type`
  batch_runner(const std::filesystem::path& folder, kernels::dtype type, std::size_t num_hosts = 1,
               const model::quantization& quant = {}, std::optional<kernels::dtype> kv_type = {});

  /// The same with an opened source.
  explicit batch_runner(std::shared_ptr<const model::weight_source> weights, std::size_t num_hosts = 1,
                        std::optional<kernels::dtype> kv_type = {});

  /// Runs one micro-batch to the end.
  batch_logits run(kernels::context& ctx, const std::vector<batch_part>& parts);

  /// Embeds a micro-batch and stops at the first pause.
  model::pause begin(kernels::context& ctx, const std::vector<batch_part>& parts,
                     model::forward_state& state);

  /// Asks the experts, once per host and the second time in reverse, and resumes.
  model::pause step(kernels::context& ctx, model::forward_state& state, bool overlap = true);

  batch_logits logits(kernels::context& ctx, model::forward_state& state);

 private:
  std::size_t host_of(std::size_t expert) const { return expert % stores_.size(); }

  std::shared_ptr<const model::weight_source> weights_;
  model::model_config config_;
  model::dense_model dense_;
  std::vector<std::unique_ptr<model::expert_store>> stores_;
  kernels::kv_cache cache_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> blocks_; // of each sequence
  std::map<std::uint32_t, std::uint32_t> lengths_;
  std::uint32_t next_block_ = 0;
};

} // namespace troupe::test
