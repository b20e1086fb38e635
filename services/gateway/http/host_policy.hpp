// Under which names a server answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::http {

/// Which Host headers are answered. A page in a browser can have the name of its own host point to 127.0.0.1
/// and then read the answers of a server there (DNS rebinding): such requests carry that name.
class host_policy {
 public:
  /// Every host.
  host_policy() = default;
  /// Loopback names and addresses, and these: in lower case, without ports; "*": every host.
  explicit host_policy(std::vector<std::string> allowed);

  /// @param host  as the header has it, with or without a port
  bool allows(std::string_view host) const;

 private:
  bool all_ = true;
  std::vector<std::string> allowed_;
};

} // namespace troupe::http
