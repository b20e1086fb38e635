#include "services/options/key_file.hpp"

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "services/options/private_file.hpp"

namespace troupe {

std::vector<std::string> read_api_keys(const std::filesystem::path& file) {
  std::ifstream in{file};
  if (!in)
    throw std::runtime_error("API key file " + file.string() + ": cannot be read");
  if (is_open_to_others(file))
    throw std::runtime_error("API key file " + file.string() + ": is open to other users; chmod 600 it");
  std::vector<std::string> keys;
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#')
      continue;
    keys.push_back(line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1));
  }
  if (keys.empty())
    throw std::runtime_error("API key file " + file.string() + ": holds no key");
  return keys;
}

std::string client_api_key(const std::filesystem::path& file) {
  if (!file.empty()) {
    return read_api_keys(file).front();
  }
  const char* key = std::getenv("OPENAI_API_KEY");
  return key == nullptr ? "" : key;
}

} // namespace troupe
