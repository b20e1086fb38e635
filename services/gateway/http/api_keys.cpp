#include "services/gateway/http/api_keys.hpp"

#include <fstream>
#include <stdexcept>

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace troupe::http {

std::vector<std::string> read_api_keys(const std::filesystem::path& file) {
  std::ifstream in{file};
  if (!in)
    throw std::runtime_error("API key file " + file.string() + ": cannot be read");
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

api_keys::api_keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    digests_.push_back(digest_of(key));
}

api_keys::digest api_keys::digest_of(std::string_view key) {
  digest result{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), result.data());
  return result;
}

bool api_keys::accepts(std::string_view authorization) const {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() < scheme.size())
    return false;
  for (size_t i = 0; i < scheme.size(); ++i)
    if ((authorization[i] | 0x20) != scheme[i] && authorization[i] != scheme[i])
      return false;
  authorization.remove_prefix(scheme.size());
  while (authorization.starts_with(' '))
    authorization.remove_prefix(1);
  while (authorization.ends_with(' '))
    authorization.remove_suffix(1);
  const digest sent = digest_of(authorization);
  bool found = false;
  for (const digest& known : digests_)
    found |= CRYPTO_memcmp(sent.data(), known.data(), sent.size()) == 0;
  return found;
}

} // namespace troupe::http
