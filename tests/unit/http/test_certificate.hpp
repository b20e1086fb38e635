// Certificates made during a test, so that none can expire.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace troupe::http_test {

struct certificate_files {
  std::filesystem::path certificate;
  std::filesystem::path key; ///< readable by its owner alone
};

/// A self-signed certificate for `name` and 127.0.0.1, as NAME.pem and NAME.key.
/// @param from, to  since now
certificate_files make_certificate(const std::filesystem::path& folder, const std::string& name,
                                   std::chrono::seconds to = std::chrono::hours{24 * 90},
                                   std::chrono::seconds from = -std::chrono::hours{1},
                                   const char* passphrase = nullptr);

} // namespace troupe::http_test
