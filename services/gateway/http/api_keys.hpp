// Who may use the API.
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
  /// No key is needed.
  api_keys() = default;
  /// Keys without names are called key-1, key-2 and so on.
  explicit api_keys(const std::vector<std::string>& keys);
  static api_keys of(const std::vector<named_key>& keys);

  /// @throws as read_api_keys
  static api_keys load(const std::filesystem::path& file);

  bool required() const noexcept { return !known_.empty(); }

  /// Each once.
  std::vector<std::string> names() const;

  /// The name of the key in this value of the Authorization header; nullptr when it is none of them. Takes
  /// the same time whatever the key.
  const std::string* find_bearer(std::string_view authorization) const;
  /// Likewise of a key by itself, as clients of Azure send it in the header api-key.
  const std::string* find(std::string_view key) const;

 private:
  using digest = std::array<unsigned char, 32>; // SHA-256

  struct entry {
    digest sum;
    std::string name;
  };

  static digest digest_of(std::string_view key);

  std::vector<entry> known_;
};

} // namespace troupe::http
