#include "tests/simulation/client.hpp"

#include <algorithm>
#include <utility>

#include "actors/protocol/error.hpp"

namespace troupe::simulation {

bool client::is_over() const {
  const auto finished = std::count_if(choices_.begin(), choices_.end(), [](const auto& entry) {
    return entry.second.finish != finish_reason::none;
  });
  return has_left || error_code_ != ec::none || !error_.empty()
         || static_cast<std::uint32_t>(finished) == request.num_choices;
}

std::size_t client::num_tokens() const {
  std::size_t result = 0;
  for (const auto& [index, one] : choices_)
    result += one.tokens.size();
  return result;
}

void client::on_tokens(std::uint32_t index, const std::vector<generated_token>& tokens,
                       finish_reason reason) {
  auto& one = choices_[index];
  if (!has_left && (is_over() || one.finish != finish_reason::none))
    is_told_after_end_ = true;
  for (const auto& token : tokens)
    one.tokens.push_back(token.token);
  one.finish = reason;
  if (patience > 0 && !is_over() && num_tokens() >= patience) {
    has_left = true;
    on_leaving();
  }
}

void client::on_prompt_logprobs(const std::vector<generated_token>& tokens) {
  prompt_logprobs_.push_back(tokens);
}

void client::on_error(const caf::error& error) {
  if (has_left) // it does not read the answer any more
    return;
  if (is_over())
    is_told_after_end_ = true;
  error_ = text_of(error);
  error_code_ = code_of(error);
}

std::vector<std::string> client::judge(const hash_model& model) const {
  std::vector<std::string> result;
  const auto name = "request " + std::to_string(request.id.value);
  if (!is_over())
    result.push_back(name + " has no answer");
  if (is_told_after_end_)
    result.push_back(name + " was told something after its answer");
  if (!is_over() || !error_.empty())
    return result;
  for (std::uint32_t index = 0; index < request.num_choices; ++index) {
    generation_request alone;
    alone.id = {request.id, index};
    alone.prompt = request.prompt;
    alone.sampling = request.sampling;
    const auto wanted = hash_model_tokens(model, alone, model.shape.max_model_len);
    std::vector<std::int32_t> tokens;
    for (const auto& token : wanted.tokens)
      tokens.push_back(token.token);
    const auto found = choices_.find(index);
    const auto got = found == choices_.end() ? choice{} : found->second;
    const auto which = name + ", choice " + std::to_string(index) + ",";
    if (has_left && got.finish == finish_reason::none) {
      if (got.tokens.size() > tokens.size()
          || !std::equal(got.tokens.begin(), got.tokens.end(), tokens.begin()))
        result.push_back(which + " got other tokens than undisturbed");
      continue;
    }
    if (got.tokens != tokens)
      result.push_back(which + " got " + std::to_string(got.tokens.size()) + " tokens, not the "
                       + std::to_string(tokens.size()) + " that it gets undisturbed");
    else if (got.finish != wanted.finish)
      result.push_back(which + " ended for another reason than undisturbed");
    if (request.sampling.prompt_logprobs >= 0 && !has_left
        && (prompt_logprobs_.size() != 1 || prompt_logprobs_[0] != wanted.prompt_logprobs))
      result.push_back(which + " got other logprobs of its prompt than undisturbed");
  }
  return result;
}

} // namespace troupe::simulation
