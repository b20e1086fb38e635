#include "services/options/private_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

namespace troupe {

bool is_open_to_others(const std::filesystem::path& file) noexcept {
  struct stat info {};

  return stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) != 0 && info.st_uid == geteuid()
         && (info.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) != 0;
}

} // namespace troupe
