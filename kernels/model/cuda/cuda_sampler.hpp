// Chooses tokens from logits that are on a GPU.
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

/// Gives the results of kernels::sample and kernels::token_logprobs for the same logits, to the last bit. The
/// device finds the best tokens, sums and single logits; the CPU chooses among them
/// (kernels/known_logits.hpp). Rows for which this does not suffice are copied as a whole, each once.
class cuda_sampler {
 public:
  /// @param ctx        borrowed: chooses tokens
  /// @param least_top  how many of each row's best tokens are examined at least; more if top-k or logprobs
  /// need them
  explicit cuda_sampler(kernels::context& ctx, std::size_t least_top = 512);

  /// Waits for the earlier work of `on`.
  /// @param logits  [wanted.rows.size(), vocab] in device memory, dense
  /// @throws device_error
  void sample(const kernels::cuda::stream& on, const float* logits, std::size_t vocab,
              const token_requests& wanted);

  /// Number of rows copied as a whole so far.
  std::size_t num_whole_rows() const { return num_whole_rows_; }

 private:
  /// A row of token_requests: `drawn` first, then `known`.
  struct job {
    std::size_t row = 0;               // of the logits
    std::vector<std::uint32_t> tokens; // logits to pick
    std::size_t first_pick = 0;
    std::size_t draw = no_draw; // index among the draws from all tokens
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
  std::vector<kernels::known_scratch> scratch_; // one per thread

  // Requests to the device, and its results.
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
