#include "services/gateway/http/api_keys.hpp"

#include <set>

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace troupe::http {

api_keys::api_keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    known_.push_back({digest_of(key), "key-" + std::to_string(known_.size() + 1)});
}

api_keys api_keys::of(const std::vector<named_key>& keys) {
  api_keys result;
  for (const auto& [name, key] : keys)
    result.known_.push_back({digest_of(key), name});
  return result;
}

std::vector<std::string> api_keys::names() const {
  std::set<std::string> once;
  for (const entry& one : known_)
    once.insert(one.name);
  return {once.begin(), once.end()};
}

api_keys::digest api_keys::digest_of(std::string_view key) {
  digest result{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), result.data());
  return result;
}

api_keys api_keys::load(const std::filesystem::path& file) {
  return of(read_api_keys(file));
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

const std::string* api_keys::find_bearer(std::string_view authorization) const {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() < scheme.size())
    return nullptr;
  for (size_t i = 0; i < scheme.size(); ++i)
    if ((authorization[i] | 0x20) != scheme[i] && authorization[i] != scheme[i])
      return nullptr;
  return find(authorization.substr(scheme.size()));
}

const std::string* api_keys::find(std::string_view key) const {
  const digest sent = digest_of(trimmed(key));
  const std::string* found = nullptr;
  for (const entry& known : known_)
    if (CRYPTO_memcmp(sent.data(), known.sum.data(), sent.size()) == 0)
      found = &known.name;
  return found;
}

} // namespace troupe::http
