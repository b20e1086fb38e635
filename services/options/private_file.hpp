// Files with secrets.
#pragma once

#include <filesystem>

namespace troupe {

/// Whether other users can read or write a file of this user. False for pipes and for files of other users,
/// such as those that Kubernetes mounts for root and the pod's group.
bool is_open_to_others(const std::filesystem::path& file) noexcept;

} // namespace troupe
