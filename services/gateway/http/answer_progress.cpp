#include "services/gateway/http/answer_progress.hpp"

#include <algorithm>
#include <string>

namespace troupe::http {

answer_progress::answer_progress(const openai::generation_plan& plan, const openai::text_codec& codec,
                                 gateway_metrics& metrics, time_point arrival)
    : plan_(plan), metrics_(metrics), arrival_(arrival) {
  for (const auto& prompt : plan_.prompts) {
    const std::size_t offset = plan_.options.echo ? openai::count_characters(prompt.echo) : 0;
    for (std::uint32_t i = 0; i < choices_of_a_job(); ++i)
      tracks_.push_back(std::make_unique<track>(openai::choice{codec, plan_.options, prompt.tokens, offset}));
  }
}

void answer_progress::job_placed(time_point at) {
  ++num_placed_;
  if (!first_placed_)
    first_placed_ = at;
}

void answer_progress::tokens_came(std::uint32_t choice, time_point at, std::size_t num_tokens) {
  track& one = of(choice);
  if (!one.first_token) {
    one.first_token = one.last_token = at;
    metrics_.first_token(at - arrival_);
    if (first_placed_)
      metrics_.prefilled(at - *first_placed_);
    --num_tokens;
  }
  if (num_tokens > 0)
    metrics_.next_tokens(at - one.last_token, num_tokens);
  one.last_token = at;
}

void answer_progress::choice_ended(std::uint32_t choice, time_point at) {
  track& one = of(choice);
  one.ended = true;
  ++num_ended_;
  if (job_ended(choice / choices_of_a_job()))
    ++num_ended_jobs_;
  metrics_.choice_finished(one.state.reason(), at - arrival_,
                           one.last_token - one.first_token.value_or(one.last_token),
                           drops_new_tokens(plan_) ? 0 : one.state.num_tokens());
  if (first_placed_ && one.first_token)
    metrics_.computed(one.last_token - *first_placed_);
  if (all_ended())
    metrics_.request_finished(longest_choice());
}

bool answer_progress::job_ended(std::size_t job) const {
  const auto begin = tracks_.begin() + static_cast<std::ptrdiff_t>(job * choices_of_a_job());
  return std::all_of(begin, begin + choices_of_a_job(), [](const auto& one) { return one->ended; });
}

openai::token_usage answer_progress::usage() const {
  openai::token_usage result;
  for (const auto& prompt : plan_.prompts)
    result.prompt_tokens += prompt.tokens.size();
  result.cached_tokens = num_cached_;
  if (!drops_new_tokens(plan_))
    for (const auto& one : tracks_)
      result.completion_tokens += one->state.num_tokens();
  return result;
}

void answer_progress::describe(access_record& record) const {
  const auto since_arrival = [this](time_point at) {
    return std::chrono::duration<double>(at - arrival_).count();
  };
  const openai::token_usage used = usage();
  record.prompt_tokens = used.prompt_tokens;
  record.output_tokens = used.completion_tokens;
  if (first_placed_)
    record.queue_seconds = since_arrival(*first_placed_);
  std::optional<time_point> first;
  for (const auto& one : tracks_) {
    if (one->first_token && (!first || *one->first_token < *first))
      first = one->first_token;
    if (one->ended)
      record.finish += (record.finish.empty() ? "" : ",") + std::string(one->state.reason());
  }
  if (first)
    record.first_token_seconds = since_arrival(*first);
}

std::uint32_t answer_progress::longest_choice() const {
  std::uint32_t longest = 0;
  if (!drops_new_tokens(plan_))
    for (const auto& one : tracks_)
      longest = std::max(longest, one->state.num_tokens());
  return longest;
}

} // namespace troupe::http
