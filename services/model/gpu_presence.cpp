#include "services/model/gpu_presence.hpp"

#include <fstream>
#include <string>
#include <system_error>

namespace troupe {

namespace {

// PCI's numbers as sysfs writes them: a vendor, and the class of display controllers, which has those
// without a display, too.
constexpr auto nvidia = "0x10de";
constexpr auto display_class = "0x03";

std::string first_word(const std::filesystem::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

} // namespace

bool has_nvidia_gpu(const std::filesystem::path& devices) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(devices, error), end; !error && it != end; it.increment(error))
    if (first_word(it->path() / "vendor") == nvidia
        && first_word(it->path() / "class").starts_with(display_class))
      return true;
  return false;
}

bool could_use_gpu() {
#ifdef TROUPE_HAS_CUDA
  return has_nvidia_gpu();
#else
  return false;
#endif
}

} // namespace troupe
