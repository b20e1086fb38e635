#include "actors/transport/fabric/shared_memory.hpp"

#include <cerrno>
#include <cstring>

#include <sys/statvfs.h>
#include <unistd.h>

namespace troupe::wire {

std::string shared_memory_shortage(const std::string& folder) {
  struct statvfs info {};

  if (::statvfs(folder.c_str(), &info) != 0 || ::access(folder.c_str(), W_OK | X_OK) != 0)
    return folder + " cannot be used: " + std::strerror(errno);
  const auto available = std::uint64_t{info.f_bavail} * info.f_frsize;
  if (available < shared_memory_per_peer)
    return folder + " has " + std::to_string(available >> 20) + " MiB left, and a peer needs "
           + std::to_string(shared_memory_per_peer >> 20) + " MiB";
  return {};
}

} // namespace troupe::wire
