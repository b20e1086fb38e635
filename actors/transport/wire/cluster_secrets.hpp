// The secrets by which processes of a cluster know each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace troupe::wire {

/// Who meets a peer proves itself by the first, and believes a peer that has any of them: so a cluster
/// exchanges its secret while it serves. Copies share what they hold; it may be replaced while in use.
/// Thread-safe.
class cluster_secrets {
 public:
  /// No secret: no peer can be met.
  cluster_secrets() : cluster_secrets(std::vector<std::string>{}) {}

  explicit cluster_secrets(std::vector<std::string> all);
  cluster_secrets(std::string only); // NOLINT(google-explicit-constructor)
  cluster_secrets(const char* only); // NOLINT(google-explicit-constructor)

  /// For the meetings from now on.
  void replace(std::vector<std::string> all);

  /// Those that count now; empty ones are none.
  std::shared_ptr<const std::vector<std::string>> now() const;

 private:
  struct current;
  std::shared_ptr<current> current_;
};

} // namespace troupe::wire
