#include "kernels/model/local_forward.hpp"

#include "kernels/model/cpu_backend.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::model {

namespace {

// In the KV cache.
constexpr std::size_t block_tokens = 16;

std::shared_ptr<const cpu_weights> open_matched(const std::filesystem::path& folder, dtype_choice choice) {
  auto config = load_config(folder);
  auto weights = std::make_shared<checkpoint>(checkpoint::open(folder));
  weights->match(config);
  const auto type = resolve_dtype(choice, *weights, config);
  return std::make_shared<const checkpoint_source>(std::move(weights), std::move(config), type);
}

} // namespace

local_forward::local_forward(std::unique_ptr<compute_backend> backend, const load_options& options)
    : attention_(backend->load_attention(options)),
      experts_(backend->make_experts()),
      pass_(attention_->make_pass()) {
  for (std::size_t layer = 0; layer < config().num_layers(); ++layer)
    if (const auto* moe = config().layers[layer].moe())
      for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
        experts_->load(layer, expert);
  blocks_.resize((attention_->max_positions() + block_tokens - 1) / block_tokens);
  // Backwards, so that nothing works only because blocks are in order.
  std::iota(blocks_.rbegin(), blocks_.rend(), std::uint32_t{0});
  attention_->reserve_kv(block_tokens, blocks_.size());
}

local_forward::local_forward(kernels::context& ctx, std::shared_ptr<const cpu_weights> weights,
                             const load_options& options)
    : local_forward(std::make_unique<cpu_backend>(ctx, std::move(weights)), options) {}

local_forward::local_forward(kernels::context& ctx, const std::filesystem::path& folder, dtype_choice choice,
                             std::size_t max_positions)
    : local_forward(ctx, open_matched(folder, choice), {.max_positions = max_positions}) {}

std::vector<float> local_forward::append(std::span<const std::uint32_t> tokens) {
  if (length_ + tokens.size() > attention_->max_positions())
    throw model_error("a sequence of " + std::to_string(length_ + tokens.size()) + " tokens, at most "
                      + std::to_string(attention_->max_positions()) + " are possible");
  if (tokens.empty())
    return {};
  std::vector<batch_row> rows;
  for (const auto token : tokens) {
    if (token >= config().vocab_size)
      throw model_error("token " + std::to_string(token) + " is beyond the vocabulary");
    const auto position = length_ + rows.size();
    const auto slot = blocks_[position / block_tokens] * block_tokens + position % block_tokens;
    rows.push_back({token, static_cast<std::uint32_t>(position), 0, static_cast<std::uint32_t>(slot)});
  }
  const std::span<const std::uint32_t> table{blocks_};
  auto why = attention_->begin({rows, {&table, 1}}, *pass_);
  while (why == pause::experts)
    why = run_experts();
  length_ += tokens.size();

  std::vector<std::uint32_t> all(tokens.size());
  std::iota(all.begin(), all.end(), std::uint32_t{0});
  std::vector<float> logits(tokens.size() * config().vocab_size);
  attention_->logits(*pass_, all, kernels::view_of(logits.data(), tokens.size(), config().vocab_size));
  return logits;
}

pause local_forward::run_experts() {
  const auto routed = pass_->routed();
  const auto row_bytes = kernels::bytes_of(type(), config().hidden);
  expert_inputs_.resize(routed.num_rows * row_bytes);
  expert_outputs_.resize(routed.entries.size() * row_bytes);
  pass_->read_rows(expert_inputs_.data());
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  std::vector<const std::byte*> slot_rows(routed.entries.size());
  for (const auto entry : routed.entries) {
    in.push_back(expert_inputs_.data() + entry / routed.num_topk * row_bytes);
    out.push_back(expert_outputs_.data() + entry * row_bytes);
    slot_rows[entry] = out.back();
  }
  std::vector<expert_rows> batch;
  for (std::size_t e = 0; e < routed.num_experts; ++e) {
    const auto first = routed.offsets[e];
    const auto count = routed.offsets[e + 1] - first;
    if (count > 0)
      batch.push_back({e, std::span{in}.subspan(first, count), std::span{out}.subspan(first, count)});
  }
  experts_->forward(routed.layer, batch);
  return attention_->resume(slot_rows, *pass_);
}

std::vector<float> local_forward::prefill(std::span<const std::uint32_t> tokens, std::size_t chunk) {
  std::vector<float> result;
  for (std::size_t i = 0; i < tokens.size(); i += chunk) {
    const auto part = append(tokens.subspan(i, std::min(chunk, tokens.size() - i)));
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

std::vector<std::uint32_t> local_forward::greedy(std::span<const float> logits, std::size_t count) {
  std::vector<std::uint32_t> result;
  std::vector<float> last(logits.begin(), logits.end());
  while (result.size() < count) {
    const auto best = static_cast<std::uint32_t>(std::max_element(last.begin(), last.end()) - last.begin());
    result.push_back(best);
    if (result.size() < count)
      last = append({&best, 1});
  }
  return result;
}

} // namespace troupe::model
