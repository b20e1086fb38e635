#include "services/gateway/http/recent_refusals.hpp"

namespace troupe::http {

void recent_refusals::add(const std::string& key, const room_demand& wanted, const openai::api_error& error,
                          time_point now) {
  const std::lock_guard lock{mutex_};
  const auto found = last_.find(key);
  if (found == last_.end())
    last_.emplace(key, refusal{now + holds_, wanted, error});
  else if (found->second.until <= now)
    found->second = {now + holds_, wanted, error};
  else if (found->second.least.covers(wanted))
    // The time is not prolonged, or requests that asked before it began would keep all others out.
    found->second.least = wanted;
}

std::optional<openai::api_error> recent_refusals::find(const std::string& key, const room_demand& wanted,
                                                       time_point now) const {
  const std::lock_guard lock{mutex_};
  const auto found = last_.find(key);
  if (found == last_.end() || found->second.until <= now || !wanted.covers(found->second.least))
    return std::nullopt;
  return found->second.error;
}

} // namespace troupe::http
