#include "kernels/model/local_forward.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::model {

namespace {

std::shared_ptr<const weight_source> open_matched(const std::filesystem::path& folder, dtype_choice choice) {
  auto config = load_config(folder);
  auto weights = std::make_shared<checkpoint>(checkpoint::open(folder));
  weights->match(config);
  const auto type = resolve_dtype(choice, *weights);
  return std::make_shared<const checkpoint_source>(std::move(weights), std::move(config), type);
}

} // namespace

local_forward::local_forward(kernels::context& ctx, const std::filesystem::path& folder, dtype_choice choice,
                             std::size_t max_positions)
    : local_forward(ctx, open_matched(folder, choice), {.max_positions = max_positions}) {}

local_forward::local_forward(kernels::context& ctx, std::shared_ptr<const weight_source> weights,
                             const load_options& options)
    : ctx_(ctx), dense_(dense_model::load(weights, options)), experts_(std::move(weights)) {
  const auto& config = experts_.config();
  for (std::size_t layer = 0; layer < config.num_layers(); ++layer)
    if (const auto* moe = config.layers[layer].moe())
      for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
        experts_.load(layer, expert);
  const auto kv = dense_.kv_config();
  blocks_.resize((dense_.max_positions() + kv.block_tokens - 1) / kv.block_tokens);
  // Backwards, so that nothing works only because blocks happen to lie in order.
  std::iota(blocks_.rbegin(), blocks_.rend(), std::uint32_t{0});
  cache_ = kernels::kv_cache(kv, blocks_.size());
}

std::vector<float> local_forward::append(std::span<const std::uint32_t> tokens) {
  if (length_ + tokens.size() > dense_.max_positions())
    throw model_error("a sequence of " + std::to_string(length_ + tokens.size()) + " tokens, at most "
                      + std::to_string(dense_.max_positions()) + " are possible");
  if (tokens.empty())
    return {};
  const auto block_tokens = cache_.config().block_tokens;
  std::vector<batch_row> rows;
  for (const auto token : tokens) {
    if (token >= config().vocab_size)
      throw model_error("token " + std::to_string(token) + " is beyond the vocabulary");
    const auto position = length_ + rows.size();
    const auto slot = blocks_[position / block_tokens] * block_tokens + position % block_tokens;
    rows.push_back({token, static_cast<std::uint32_t>(position), 0, static_cast<std::uint32_t>(slot)});
  }
  const std::span<const std::uint32_t> table{blocks_};
  auto why = dense_.begin(ctx_, cache_, {rows, {&table, 1}}, state_);
  while (why == pause::experts)
    why = run_experts();
  length_ += tokens.size();

  std::vector<std::uint32_t> all(tokens.size());
  std::iota(all.begin(), all.end(), std::uint32_t{0});
  std::vector<float> logits(tokens.size() * config().vocab_size);
  dense_.logits(ctx_, state_, all, kernels::view_of(logits.data(), tokens.size(), config().vocab_size));
  return logits;
}

pause local_forward::run_experts() {
  const auto normed = state_.normed();
  const auto num_topk = state_.num_topk();
  const auto entries = state_.expert_entries();
  const auto offsets = state_.expert_offsets();
  expert_outputs_ = kernels::tensor(type(), entries.size(), config().hidden);
  auto outputs = expert_outputs_.view();
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  std::vector<const std::byte*> slot_rows(entries.size());
  for (const auto entry : entries) {
    in.push_back(normed.row(entry / num_topk));
    out.push_back(outputs.row(entry));
    slot_rows[entry] = outputs.row(entry);
  }
  std::vector<expert_rows> batch;
  for (std::size_t e = 0; e < state_.num_experts(); ++e) {
    const auto count = offsets[e + 1] - offsets[e];
    if (count > 0)
      batch.push_back(
          {e, std::span{in}.subspan(offsets[e], count), std::span{out}.subspan(offsets[e], count)});
  }
  experts_.forward(ctx_, state_.layer(), batch);
  return dense_.resume(ctx_, cache_, slot_rows, state_);
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
