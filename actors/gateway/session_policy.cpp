#include "actors/gateway/session_policy.hpp"

#include <algorithm>

#include "actors/protocol/defaults.hpp"

namespace troupe {

choice_log::verdict choice_log::accept(std::uint32_t first_index, std::vector<generated_token>& tokens) {
  if (first_index > tokens_.size())
    return verdict::gap;
  auto known = std::min(tokens_.size() - first_index, tokens.size());
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(known));
  for (const auto& token : tokens)
    tokens_.push_back(token.token);
  return tokens.empty() ? verdict::duplicate : verdict::fresh;
}

bool is_retryable(ec code) {
  return code == ec::peer_down || code == ec::overloaded || code == ec::not_ready || code == ec::engine_failed
         || code == ec::shutting_down;
}

std::chrono::milliseconds replay_pause(std::uint32_t attempt) {
  if (attempt <= 1)
    return std::chrono::milliseconds{0};
  auto doublings = std::min<std::uint32_t>(attempt - 2, 16);
  return std::min<std::chrono::milliseconds>(defaults::reconnect_min * (1U << doublings),
                                             defaults::reconnect_max);
}

} // namespace troupe
