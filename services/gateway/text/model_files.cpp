#include "services/gateway/text/model_files.hpp"

#include "services/gateway/text/text_error.hpp"

#include <fstream>

namespace troupe::text {

std::optional<std::string> read_text_file(const std::filesystem::path& file) {
  constexpr std::uintmax_t largest = 256ULL << 20U;
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    return std::nullopt;
  const auto size = std::filesystem::file_size(file, error);
  if (error)
    throw text_error(file.string() + ": " + error.message());
  if (size > largest) {
    throw text_error(file.string() + ": has " + std::to_string(size)
                     + " bytes; over 256 MiB is not believable");
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(text.data(), static_cast<std::streamsize>(text.size())))
    throw text_error(file.string() + ": cannot be read");
  return text;
}

} // namespace troupe::text
