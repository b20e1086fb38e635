#include "services/gateway/http/recent_refusals.hpp"

#include <algorithm>

namespace troupe::http {

void recent_refusals::add(const std::string& key, size_t body_bytes, const openai::api_error& error,
                          time_point now) {
  const std::lock_guard lock{mutex_};
  const auto found = last_.find(key);
  if (found == last_.end())
    last_.emplace(key, refusal{now + holds_, body_bytes, error});
  else if (found->second.until <= now)
    found->second = {now + holds_, body_bytes, error};
  else // the time is not prolonged: those that asked before it began would keep all others out
    found->second.smallest_body = std::min(found->second.smallest_body, body_bytes);
}

std::optional<openai::api_error> recent_refusals::find(const std::string& key, size_t body_bytes,
                                                       time_point now) const {
  const std::lock_guard lock{mutex_};
  const auto found = last_.find(key);
  if (found == last_.end() || found->second.until <= now || body_bytes < found->second.smallest_body)
    return std::nullopt;
  return found->second.error;
}

} // namespace troupe::http
