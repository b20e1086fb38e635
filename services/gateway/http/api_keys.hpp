// Who may use the API.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::http {

/// The keys that `Authorization: Bearer KEY` or `api-key: KEY` may carry. Only their digests are kept.
class api_keys {
 public:
  /// No key is needed.
  api_keys() = default;
  explicit api_keys(const std::vector<std::string>& keys);

  /// @throws as read_api_keys
  static api_keys load(const std::filesystem::path& file);

  bool required() const noexcept { return !digests_.empty(); }

  /// Whether this value of the Authorization header opens the door. Takes the same time whatever the key.
  bool accepts(std::string_view authorization) const;
  /// Whether this is one of the keys, as clients of Azure send it in the header api-key. Takes the same time
  /// whatever the key.
  bool knows(std::string_view key) const;

 private:
  using digest = std::array<unsigned char, 32>; // SHA-256
  static digest digest_of(std::string_view key);

  std::vector<digest> digests_;
};

} // namespace troupe::http
