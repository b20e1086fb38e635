// The Host headers that a server answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::http {

/// Protects against DNS rebinding: a page in a browser can make the name of its own host point to 127.0.0.1
/// and then read the answers of a server there. Such requests carry the page's host name.
class host_policy {
 public:
  /// Answers every host.
  host_policy() = default;
  /// Answers loopback names and addresses, and these.
  /// @param allowed  names in lower case without ports; "*": every host
  explicit host_policy(std::vector<std::string> allowed);

  /// @param host  as the header has it, with or without a port
  bool allows(std::string_view host) const;

 private:
  bool all_ = true;
  std::vector<std::string> allowed_;
};

} // namespace troupe::http
