// Tokens from logits that are on a GPU.
#pragma once

#include "kernels/context.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/pick_logits.hpp"
#include "kernels/cuda/rank_logits.hpp"
#include "kernels/cuda/share_sums.hpp"
#include "kernels/known_logits.hpp"
#include "kernels/model/attention_backend.hpp"
#include "kernels/model/cuda/growing_memory.hpp"

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace troupe::model {

/// Chooses what kernels::sample and kernels::token_logprobs choose of the same logits, to the last bit. The
/// device finds the best tokens, sums and single logits; the CPU chooses among them
/// (kernels/known_logits.hpp). Rows of which these do not tell enough are copied whole, each once.
class cuda_sampler {
 public:
  /// @param ctx        borrowed: where tokens are chosen
  /// @param least_top  of each row's best tokens so many are looked at, or as many as top-k and logprobs ask
  /// for
  explicit cuda_sampler(kernels::context& ctx, std::size_t least_top = 512);

  /// Waits for the work that `on` was given before.
  /// @param logits  [wanted.rows.size(), vocab] in device memory, dense
  /// @errors device_error
  void sample(const kernels::cuda::stream& on, const float* logits, std::size_t vocab,
              const token_requests& wanted);

  /// How many rows were copied whole so far.
  std::size_t num_whole_rows() const { return num_whole_rows_; }

 private:
  /// A row of token_requests: `drawn` first, then `known`.
  struct job {
    std::size_t row = 0;               // of the logits
    std::vector<std::uint32_t> tokens; // whose logits are picked
    std::size_t first_pick = 0;
    std::size_t draw = no_draw; // among those from all tokens
    kernels::known_choice choice{};
    bool is_decided = false;
  };

  static constexpr std::size_t no_draw = ~std::size_t{0};

  void plan(std::size_t vocab, const token_requests& wanted);
  void ask_device(const kernels::cuda::stream& on, const float* logits, std::size_t rows, std::size_t vocab);
  void sort_tops(std::size_t rows);
  kernels::known_logits known_of(const job& of, std::size_t vocab) const;
  void decide(std::size_t vocab, const token_requests& wanted);
  void rank(const kernels::cuda::stream& on, const float* logits, std::size_t rows, std::size_t vocab);
  template <class Row, class Choose>
  static void choose_undecided(std::span<const job> jobs, std::span<const Row> rows,
                               std::span<kernels::sampled_token> tokens,
                               const std::map<std::size_t, std::size_t>& places, const Choose& choose);
  void sample_whole_rows(const kernels::cuda::stream& on, const float* logits, std::size_t vocab,
                         const token_requests& wanted);

  kernels::context& ctx_;
  std::size_t least_top_;
  std::size_t num_whole_rows_ = 0;

  std::vector<job> jobs_;
  std::vector<kernels::cuda::logit_place> places_;
  std::vector<kernels::cuda::share_draw> draws_;
  std::size_t top_ = 0;
  std::size_t room_ = 0;
  std::vector<kernels::known_scratch> scratch_; // of each thread

  // What the device is asked, and what it says.
  growing_pinned host_places_;
  growing_device device_places_;
  growing_pinned host_draws_;
  growing_device device_draws_;
  growing_pinned host_ranked_;
  growing_device device_ranked_;
  growing_pinned best_;
  growing_device device_best_;
  growing_pinned sums_;
  growing_device device_sums_;
  growing_pinned counts_;
  growing_device device_counts_;
  growing_pinned entries_;
  growing_device device_entries_;
  growing_pinned picked_;
  growing_device device_picked_;
  growing_pinned share_sums_;
  growing_device device_share_sums_;
  growing_pinned drawn_blocks_;
  growing_device device_drawn_blocks_;
  growing_pinned drawn_;
  growing_device device_drawn_;
  growing_pinned ranks_;
  growing_device device_ranks_;
  growing_pinned whole_rows_;
};

} // namespace troupe::model
