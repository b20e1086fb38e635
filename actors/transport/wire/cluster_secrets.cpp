#include "actors/transport/wire/cluster_secrets.hpp"

#include <mutex>
#include <utility>

namespace troupe::wire {

struct cluster_secrets::current {
  std::mutex mutex;
  std::shared_ptr<const std::vector<std::string>> all;
};

cluster_secrets::cluster_secrets(std::vector<std::string> all) : current_(std::make_shared<current>()) {
  replace(std::move(all));
}

cluster_secrets::cluster_secrets(std::string only)
    : cluster_secrets(std::vector<std::string>{std::move(only)}) {}

cluster_secrets::cluster_secrets(const char* only) : cluster_secrets(std::string(only)) {}

void cluster_secrets::replace(std::vector<std::string> all) {
  std::erase(all, std::string{});
  auto next = std::make_shared<const std::vector<std::string>>(std::move(all));
  const std::lock_guard guard{current_->mutex};
  current_->all.swap(next);
}

std::shared_ptr<const std::vector<std::string>> cluster_secrets::now() const {
  const std::lock_guard guard{current_->mutex};
  return current_->all;
}

} // namespace troupe::wire
