#include "services/gateway/http/api_keys.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "services/options/key_file.hpp"

namespace troupe::http {

api_keys::api_keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    digests_.push_back(digest_of(key));
}

api_keys::digest api_keys::digest_of(std::string_view key) {
  digest result{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), result.data());
  return result;
}

api_keys api_keys::load(const std::filesystem::path& file) {
  return api_keys{read_api_keys(file)};
}

namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' '))
    text.remove_prefix(1);
  while (text.ends_with(' '))
    text.remove_suffix(1);
  return text;
}

} // namespace

bool api_keys::accepts(std::string_view authorization) const {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() < scheme.size())
    return false;
  for (size_t i = 0; i < scheme.size(); ++i)
    if ((authorization[i] | 0x20) != scheme[i] && authorization[i] != scheme[i])
      return false;
  return knows(authorization.substr(scheme.size()));
}

bool api_keys::knows(std::string_view key) const {
  const digest sent = digest_of(trimmed(key));
  bool found = false;
  for (const digest& known : digests_)
    found |= CRYPTO_memcmp(sent.data(), known.data(), sent.size()) == 0;
  return found;
}

} // namespace troupe::http
