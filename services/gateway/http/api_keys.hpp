// API keys of clients and of operators.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "services/options/key_file.hpp"

namespace troupe::http {

/// The keys that `Authorization: Bearer KEY` or `api-key: KEY` may carry. Only their digests are kept.
class api_keys {
 public:
  struct known_key {
    std::string name;
    bool is_operators = false; ///< false: a client's
  };

  /// No key is needed.
  api_keys() = default;
  /// Keys without names are called key-1, key-2 and so on.
  explicit api_keys(const std::vector<std::string>& keys);
  static api_keys of(const std::vector<named_key>& clients, const std::vector<named_key>& operators = {});

  /// @param clients, operators  files; empty: none
  /// @throws as read_api_keys, and std::runtime_error when a key is in both
  static api_keys load(const std::filesystem::path& clients, const std::filesystem::path& operators = {});

  /// Clients need a key. If only operators have keys, clients need none.
  bool required() const noexcept { return has_clients_; }

  /// There are no keys at all.
  bool empty() const noexcept { return known_.empty(); }

  /// Names of the keys, without duplicates.
  std::vector<std::string> names() const;

  /// The key in this value of the Authorization header; nullptr: it is not known. The time does not depend on
  /// the key.
  const known_key* find_bearer(std::string_view authorization) const;
  /// As find_bearer, for a bare key such as clients of Azure send in the header api-key.
  const known_key* find(std::string_view key) const;

 private:
  using digest = std::array<unsigned char, 32>; // SHA-256

  struct entry {
    digest sum;
    known_key key;
  };

  static digest digest_of(std::string_view key);
  void add(const named_key& key, bool is_operators);

  std::vector<entry> known_;
  bool has_clients_ = false;
};

} // namespace troupe::http
