#include "kernels/model/text_file.hpp"

#include "kernels/model/error.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace troupe::model {

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code ec;
  const auto size = std::filesystem::file_size(path, ec);
  if (ec)
    throw model_error(path.string() + ": " + ec.message());
  if (size > max_bytes)
    throw model_error(path.string() + ": " + std::to_string(size) + " bytes, more than the "
                      + std::to_string(max_bytes) + " allowed");
  std::string text(size, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    throw model_error(path.string() + ": cannot be read: " + std::strerror(errno));
  return text;
}

} // namespace troupe::model
