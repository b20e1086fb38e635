#include "services/gateway/http/key_usage.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {

namespace {

void set_rate(std::optional<token_bucket>& bucket, const std::optional<std::uint64_t>& per_minute,
              token_bucket::time_point now) {
  if (!per_minute)
    bucket.reset();
  else if (bucket)
    bucket->set_rate(*per_minute, now);
  else
    bucket = token_bucket(*per_minute, now);
}

void add_headers(header_list& headers, const std::string& what, const token_bucket& bucket,
                 token_bucket::time_point now) {
  const double left = std::max(0.0, std::floor(bucket.level(now)));
  headers.emplace_back("x-ratelimit-limit-" + what, std::to_string(bucket.per_minute()));
  headers.emplace_back("x-ratelimit-remaining-" + what, std::to_string(static_cast<std::uint64_t>(left)));
  headers.emplace_back("x-ratelimit-reset-" + what, reset_text(bucket.wait_for(bucket.per_minute(), now)));
}

} // namespace

key_usage::key_usage(const key_limit_table& limits, const std::vector<std::string>& names,
                     std::shared_ptr<gateway_metrics> metrics, time_source now)
    : metrics_(std::move(metrics)), now_(std::move(now)) {
  replace(limits, names);
}

void key_usage::replace(const key_limit_table& limits, const std::vector<std::string>& names) {
  const std::lock_guard lock{mutex_};
  const auto now = now_();
  std::map<std::string, std::shared_ptr<account>> kept;
  for (const std::string& name : names) {
    auto& one = kept[name];
    if (const auto found = accounts_.find(name); found != accounts_.end())
      one = found->second;
    else
      one = std::make_shared<account>();
    one->name = name;
    one->limit = limits.of(name);
    set_rate(one->requests, one->limit.requests_per_minute, now);
    set_rate(one->tokens, one->limit.tokens_per_minute, now);
    metrics_->key_known(name);
  }
  accounts_ = std::move(kept);
}

void key_usage::refuse(const account& whose, const char* reason, const std::string& text,
                       token_bucket::seconds wait) const {
  metrics_->key_rejected(whose.name, reason);
  // OpenAI has error types for the two rates only.
  const bool is_of_tokens = std::string(reason) == "tokens";
  openai::api_error error{
      429, is_of_tokens ? "tokens" : "requests", "this API key " + text, {}, "rate_limit_exceeded"};
  error.retry_after = static_cast<unsigned>(std::ceil(wait.count()));
  throw error;
}

key_permit key_usage::admit(const std::string& name) {
  const std::lock_guard lock{mutex_};
  const auto found = accounts_.find(name);
  if (found == accounts_.end())
    return {*this, nullptr, name};
  account& of = *found->second;
  const auto now = now_();
  if (of.limit.concurrent_requests && of.running >= *of.limit.concurrent_requests)
    refuse(of, "concurrency", "has " + std::to_string(of.running) + " requests running, as many as it may",
           token_bucket::seconds{1});
  // At least a second each: Retry-After has no smaller one.
  const auto wait = [&](const token_bucket& bucket) {
    return std::max(bucket.wait_for(1, now), token_bucket::seconds{1});
  };
  if (of.requests && of.requests->level(now) < 1)
    refuse(of, "requests",
           "has used its " + std::to_string(of.requests->per_minute()) + " requests per minute",
           wait(*of.requests));
  if (of.tokens && of.tokens->level(now) < 1)
    refuse(of, "tokens", "has used its " + std::to_string(of.tokens->per_minute()) + " tokens per minute",
           wait(*of.tokens));
  if (of.requests)
    of.requests->charge(1, now);
  ++of.running;
  metrics_->key_request(name);
  return {*this, found->second, name};
}

header_list key_usage::headers(const std::string& name) const {
  const std::lock_guard lock{mutex_};
  header_list result;
  const auto found = accounts_.find(name);
  if (found == accounts_.end())
    return result;
  const auto now = now_();
  if (found->second->requests)
    add_headers(result, "requests", *found->second->requests, now);
  if (found->second->tokens)
    add_headers(result, "tokens", *found->second->tokens, now);
  return result;
}

key_permit::key_permit(key_usage& usage, std::shared_ptr<key_usage::account> account, std::string name)
    : usage_(&usage), account_(std::move(account)), name_(std::move(name)) {
  if (!account_)
    return;
  weight_ = account_->limit.weight;
  may_go_first_ = account_->limit.priority;
}

key_permit::~key_permit() {
  if (!account_) // moved from, or nothing is counted
    return;
  const std::lock_guard lock{usage_->mutex_};
  --account_->running;
}

void key_permit::take_prompt(std::size_t num_tokens) {
  if (!account_)
    return;
  const std::lock_guard lock{usage_->mutex_};
  if (auto& tokens = account_->tokens) {
    const auto now = usage_->now_();
    const std::string most = std::to_string(tokens->per_minute());
    if (num_tokens > tokens->per_minute()) // a retry does not help
      usage_->refuse(*account_, "tokens",
                     "may use " + most + " tokens per minute, and this prompt has "
                         + std::to_string(num_tokens),
                     token_bucket::seconds{0});
    if (tokens->level(now) < static_cast<double>(num_tokens))
      usage_->refuse(*account_, "tokens",
                     "has not enough left of its " + most + " tokens per minute for this prompt of "
                         + std::to_string(num_tokens),
                     std::max(tokens->wait_for(num_tokens, now), token_bucket::seconds{1}));
    tokens->charge(num_tokens, now);
  }
  usage_->metrics_->key_tokens(name_, "prompt", num_tokens);
}

void key_permit::generated(std::size_t num_tokens) {
  if (!account_)
    return;
  const std::lock_guard lock{usage_->mutex_};
  if (account_->tokens)
    account_->tokens->charge(num_tokens, usage_->now_());
  usage_->metrics_->key_tokens(name_, "generation", num_tokens);
}

} // namespace troupe::http
