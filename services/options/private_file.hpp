// Files with secrets.
#pragma once

#include <filesystem>

namespace troupe {

/// Whether a file with a secret of this user can be read or written by others. Files of other users, such as
/// those that Kubernetes mounts for root and the pod's group, are not ours to judge; nor are pipes.
bool is_open_to_others(const std::filesystem::path& file) noexcept;

} // namespace troupe
