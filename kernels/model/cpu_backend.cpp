#include "kernels/model/cpu_backend.hpp"

#include "kernels/growing_rows.hpp"
#include "kernels/kv_cache.hpp"
#include "kernels/model/cpu_runner.hpp"
#include "kernels/model/expert_store.hpp"

#include <cstring>
#include <utility>

namespace troupe::model {

namespace {

class cpu_pass final : public attention_pass {
 public:
  routed_rows routed() const override {
    return {.layer = state.layer(),
            .num_rows = state.num_rows(),
            .num_topk = state.num_topk(),
            .num_experts = state.num_experts(),
            .offsets = state.expert_offsets(),
            .entries = state.expert_entries(),
            .router_ns = state.router_ns()};
  }

  void read_rows(std::byte* out) const override {
    const auto rows = state.expert_inputs();
    const auto row_bytes = kernels::bytes_of(rows.type, rows.cols);
    for (std::size_t r = 0; r < rows.rows; ++r)
      std::memcpy(out + r * row_bytes, rows.row(r), row_bytes);
  }

  forward_state state;
};

forward_state& state_of(attention_pass& pass) {
  return static_cast<cpu_pass&>(pass).state;
}

class cpu_attention final : public attention_backend {
 public:
  cpu_attention(kernels::context& ctx, cpu_runner model) : ctx_(ctx), model_(std::move(model)) {}

  const model_config& config() const override { return model_.config(); }

  kernels::dtype type() const override { return model_.type(); }

  std::size_t max_positions() const override { return model_.max_positions(); }

  std::size_t num_bytes() const override { return model_.num_bytes(); }

  std::vector<kv_reach> kv_reaches() const override { return model_.tables().reaches; }

  std::size_t kv_block_bytes(std::size_t block_tokens) const override {
    return model_.kv_config(block_tokens).bytes_per_block();
  }

  void reserve_kv(std::size_t block_tokens, std::size_t blocks) override {
    cache_ = kernels::kv_cache(model_.kv_config(block_tokens), blocks);
  }

  std::unique_ptr<attention_pass> make_pass() override { return std::make_unique<cpu_pass>(); }

  pause begin(const micro_batch& batch, attention_pass& pass) override {
    return model_.begin(ctx_, cache_, batch, state_of(pass));
  }

  void overlap(attention_pass& pass) override { model_.overlap(ctx_, cache_, state_of(pass)); }

  pause resume(std::span<const std::byte* const> slot_rows, attention_pass& pass) override {
    return model_.resume(ctx_, cache_, slot_rows, state_of(pass));
  }

  void logits(attention_pass& pass, std::span<const std::uint32_t> rows, kernels::tensor_view out) override {
    model_.logits(ctx_, state_of(pass), rows, out);
  }

  void sample(attention_pass& pass, const token_requests& wanted) override {
    logits_.reserve(kernels::dtype::f32, wanted.rows.size(), config().vocab_size);
    const auto logits = logits_.rows(wanted.rows.size());
    model_.logits(ctx_, state_of(pass), wanted.rows, logits);
    kernels::sample(ctx_, logits, wanted.drawn, wanted.drawn_tokens);
    kernels::token_logprobs(ctx_, logits, wanted.known, wanted.known_tokens);
  }

  void copy_blocks(std::span<const block_copy> copies) override {
    for (const auto& copy : copies)
      cache_.copy_block(copy.from, copy.to);
  }

 private:
  kernels::context& ctx_;
  cpu_runner model_;
  kernels::kv_cache cache_;
  kernels::growing_rows logits_; // f32 [requested rows, vocab]
};

} // namespace

cpu_backend::cpu_backend(kernels::context& ctx, std::shared_ptr<const cpu_weights> weights)
    : ctx_(ctx), weights_(std::move(weights)) {}

std::unique_ptr<attention_backend> cpu_backend::load_attention(const load_options& options,
                                                               const load_progress& progress) {
  return std::make_unique<cpu_attention>(ctx_, cpu_runner::load(weights_, options, progress));
}

std::unique_ptr<expert_backend> cpu_backend::make_experts() {
  return std::make_unique<expert_store>(ctx_, weights_);
}

} // namespace troupe::model
