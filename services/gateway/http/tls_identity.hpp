// The certificate of a server, and its settings of TLS.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
} // namespace boost::asio::ssl

namespace troupe::http {

/// A certificate with its chain and private key. Accepts TLS 1.2 and 1.3, ciphers with forward secrecy and
/// authenticated encryption, and HTTP/1.1 by ALPN.
class tls_identity {
 public:
  /// Reads PEM files: the server's certificate followed by intermediate ones, and its private key.
  /// @throws option_error naming flag and file when a file cannot be read or is malformed, when the two do
  /// not belong together, or when other users can read the key
  static std::shared_ptr<const tls_identity> load(const std::filesystem::path& certificate_file,
                                                  const std::filesystem::path& key_file);

  ~tls_identity();
  tls_identity(const tls_identity&) = delete;
  tls_identity& operator=(const tls_identity&) = delete;

  /// The context for new connections, from any thread. Connections keep what they use of it.
  boost::asio::ssl::context& context() const { return *context_; }

  /// Subject of the certificate: "CN = gateway.example".
  const std::string& subject() const { return subject_; }

  std::chrono::system_clock::time_point not_before() const { return not_before_; }

  std::chrono::system_clock::time_point not_after() const { return not_after_; }

  bool has_expired(std::chrono::system_clock::time_point now) const { return now >= not_after_; }

  /// Subject and end of validity, for the log.
  std::string description() const;

  /// A warning if the certificate is not valid now or expires within 14 days; empty: none.
  std::string warning(std::chrono::system_clock::time_point now) const;

 private:
  tls_identity();

  std::unique_ptr<boost::asio::ssl::context> context_;
  std::string subject_;
  std::chrono::system_clock::time_point not_before_;
  std::chrono::system_clock::time_point not_after_;
};

} // namespace troupe::http
