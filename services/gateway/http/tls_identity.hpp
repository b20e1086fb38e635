// What a server shows of itself in TLS handshakes.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
} // namespace boost::asio::ssl

namespace troupe::http {

/// A certificate with its chain and private key, and what is agreed to with clients: TLS 1.2 or 1.3, ciphers
/// with forward secrecy and authentication of the data, HTTP/1.1 by ALPN.
class tls_identity {
 public:
  /// Reads PEM files: the server's certificate with those between it and the root behind it, and its private
  /// key.
  /// @throws option_error that names flag and file when one cannot be read, is malformed or does not belong
  /// to the other, or when other users can read the key
  static std::shared_ptr<const tls_identity> load(const std::filesystem::path& certificate_file,
                                                  const std::filesystem::path& key_file);

  ~tls_identity();
  tls_identity(const tls_identity&) = delete;
  tls_identity& operator=(const tls_identity&) = delete;

  /// For new connections, from any thread; what they have of it outlives this.
  boost::asio::ssl::context& context() const { return *context_; }

  /// Of the certificate: "CN = gateway.example".
  const std::string& subject() const { return subject_; }

  std::chrono::system_clock::time_point not_before() const { return not_before_; }

  std::chrono::system_clock::time_point not_after() const { return not_after_; }

  bool has_expired(std::chrono::system_clock::time_point now) const { return now >= not_after_; }

  /// Subject and end, for the log.
  std::string description() const;

  /// What an operator must be warned of: that the certificate is not valid now, or not for another 14 days.
  /// Empty: nothing.
  std::string warning(std::chrono::system_clock::time_point now) const;

 private:
  tls_identity();

  std::unique_ptr<boost::asio::ssl::context> context_;
  std::string subject_;
  std::chrono::system_clock::time_point not_before_;
  std::chrono::system_clock::time_point not_after_;
};

} // namespace troupe::http
