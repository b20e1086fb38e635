#include "services/gateway/http/host_policy.hpp"

#include <algorithm>
#include <utility>

#include "services/options/network_address.hpp"

namespace troupe::http {

namespace {

/// Lower case, without port, brackets and the final dot of a full name.
std::string plain_name(std::string_view host) {
  if (host.starts_with('['))
    host = host.substr(1, host.find(']') == std::string_view::npos ? host.size() : host.find(']') - 1);
  else if (std::count(host.begin(), host.end(), ':') == 1)
    host = host.substr(0, host.find(':'));
  if (host.ends_with('.'))
    host.remove_suffix(1);
  std::string name(host);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return name;
}

bool is_loopback(const std::string& name) {
  static const address_ranges loopback({"127.0.0.0/8", "::1"}, "loopback");
  const auto address = parse_network_address(name);
  // RFC 6761, section 6.3: every name that ends so is loopback.
  return name == "localhost" || name.ends_with(".localhost") || (address && loopback.contains(*address));
}

} // namespace

host_policy::host_policy(std::vector<std::string> allowed)
    : all_(std::find(allowed.begin(), allowed.end(), "*") != allowed.end()), allowed_(std::move(allowed)) {}

bool host_policy::allows(std::string_view host) const {
  if (all_)
    return true;
  const std::string name = plain_name(host);
  return is_loopback(name) || std::find(allowed_.begin(), allowed_.end(), name) != allowed_.end();
}

} // namespace troupe::http
