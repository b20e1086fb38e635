#include "services/options/key_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "services/options/private_file.hpp"

namespace troupe {

namespace {

constexpr std::size_t max_name_bytes = 64;

/// Characters that a header can carry, blanks aside.
bool is_key(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

bool is_name(const std::string& text) {
  return text.size() <= max_name_bytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.'
                  || c == '_' || c == '-';
         });
}

} // namespace

std::vector<named_key> read_api_keys(const std::filesystem::path& file, const std::string& unnamed) {
  std::ifstream in{file};
  if (!in)
    throw std::runtime_error("API key file " + file.string() + ": cannot be read");
  if (is_open_to_others(file))
    throw std::runtime_error("API key file " + file.string() + ": is open to other users; chmod 600 it");
  std::vector<named_key> keys;
  std::size_t line_number = 0;
  for (std::string line; std::getline(in, line);) {
    if (++line_number == 1 && line.starts_with("\xEF\xBB\xBF"))
      line.erase(0, 3); // editors of Windows begin a file with it
    const auto malformed = [&](const std::string& why) {
      return std::runtime_error("API key file " + file.string() + ": line " + std::to_string(line_number)
                                + " " + why);
    };
    std::istringstream words{line};
    std::string first;
    std::string second;
    std::string third;
    words >> first >> second >> third;
    if (first.empty() || first.front() == '#')
      continue;
    if (!third.empty())
      throw malformed("has more than two words; write KEY or NAME KEY");
    if (!is_key(second.empty() ? first : second))
      throw malformed("has a key with characters that no client can send: printable ASCII alone");
    if (second.empty()) {
      keys.push_back({unnamed + "-" + std::to_string(keys.size() + 1), first});
      continue;
    }
    if (!is_name(first))
      throw malformed("has a name that is no word of up to " + std::to_string(max_name_bytes)
                      + " letters, digits and '._-'");
    keys.push_back({first, second});
  }
  if (keys.empty())
    throw std::runtime_error("API key file " + file.string() + ": holds no key");
  return keys;
}

std::string client_api_key(const std::filesystem::path& file) {
  if (!file.empty())
    return read_api_keys(file).front().key;
  const char* key = std::getenv("OPENAI_API_KEY");
  return key == nullptr ? "" : key;
}

} // namespace troupe
