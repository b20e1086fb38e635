#include "services/gateway/http/api_keys.hpp"

#include <set>
#include <stdexcept>

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace troupe::http {

api_keys::api_keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    add({"key-" + std::to_string(known_.size() + 1), key}, false);
}

api_keys api_keys::of(const std::vector<named_key>& clients, const std::vector<named_key>& operators) {
  api_keys result;
  for (const named_key& key : clients)
    result.add(key, false);
  for (const named_key& key : operators)
    result.add(key, true);
  return result;
}

void api_keys::add(const named_key& key, bool is_operators) {
  known_.push_back({digest_of(key.key), {key.name, is_operators}});
  has_clients_ = has_clients_ || !is_operators;
}

std::vector<std::string> api_keys::names() const {
  std::set<std::string> once;
  for (const entry& one : known_)
    once.insert(one.key.name);
  return {once.begin(), once.end()};
}

api_keys::digest api_keys::digest_of(std::string_view key) {
  digest result{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), result.data());
  return result;
}

api_keys api_keys::load(const std::filesystem::path& clients, const std::filesystem::path& operators) {
  const auto of_file = [](const std::filesystem::path& file, const char* unnamed) {
    return file.empty() ? std::vector<named_key>{} : read_api_keys(file, unnamed);
  };
  const auto of_clients = of_file(clients, "key");
  const auto of_operators = of_file(operators, "operator");
  for (const named_key& one : of_operators)
    for (const named_key& other : of_clients)
      if (one.key == other.key)
        throw std::runtime_error("API key file " + operators.string() + ": the key of " + one.name + " is in "
                                 + clients.string() + " too, as that of the client " + other.name);
  return of(of_clients, of_operators);
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

const api_keys::known_key* api_keys::find_bearer(std::string_view authorization) const {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() < scheme.size())
    return nullptr;
  for (std::size_t i = 0; i < scheme.size(); ++i)
    if ((authorization[i] | 0x20) != scheme[i] && authorization[i] != scheme[i])
      return nullptr;
  return find(authorization.substr(scheme.size()));
}

const api_keys::known_key* api_keys::find(std::string_view key) const {
  const digest sent = digest_of(trimmed(key));
  const known_key* found = nullptr;
  for (const entry& known : known_)
    if (CRYPTO_memcmp(sent.data(), known.sum.data(), sent.size()) == 0)
      found = &known.key;
  return found;
}

} // namespace troupe::http
