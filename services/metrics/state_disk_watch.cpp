#include "services/metrics/state_disk_watch.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

#include <sys/statvfs.h>

#include <prometheus/gauge.h>

namespace troupe::metrics {

struct state_disk_watch::shared {
  std::string directory;
  std::shared_ptr<registry> families;
  std::chrono::milliseconds pause;
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;
  bool ended = false;

  void look() const {
    struct statvfs seen {};

    if (statvfs(directory.c_str(), &seen) != 0)
      return;
    const auto block = static_cast<double>(seen.f_frsize);
    families->gauge("state_directory_free_bytes").Set(block * static_cast<double>(seen.f_bavail));
    families->gauge("state_directory_size_bytes").Set(block * static_cast<double>(seen.f_blocks));
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!stop) {
      lock.unlock();
      look();
      lock.lock();
      changed.wait_for(lock, pause, [this] { return stop; });
    }
    ended = true;
    changed.notify_all();
  }
};

state_disk_watch::state_disk_watch(std::string directory, std::shared_ptr<registry> families,
                                   std::chrono::milliseconds pause)
    : shared_(std::make_shared<shared>()) {
  shared_->directory = std::move(directory);
  shared_->families = std::move(families);
  shared_->pause = pause;
  thread_ = std::thread([mine = shared_] { mine->run(); });
}

state_disk_watch::~state_disk_watch() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  const bool ended =
      shared_->changed.wait_for(lock, std::chrono::seconds{1}, [this] { return shared_->ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

} // namespace troupe::metrics
