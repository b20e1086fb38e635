// A TLS client that can send half a record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tests/unit/http/raw_client.hpp"

struct ssl_st;
struct ssl_ctx_st;

namespace troupe::http_test {

struct tls_client_options {
  std::filesystem::path trusted; ///< certificate that the server must show; empty: any one
  std::string alpn;              ///< protocols to offer, as they are sent; empty: none
  int version = 0;               ///< the only one to speak; 0: any one
  int receive_buffer_bytes = 0;
};

class tls_client : public raw_client {
 public:
  /// Connects, without the handshake.
  explicit tls_client(std::uint16_t port, const tls_client_options& options = {});
  ~tls_client() override;

  /// Does the handshake; false if the server, or this client, refuses.
  bool shake_hands();

  /// The name in the server's certificate: "gateway".
  std::string server_name() const;
  /// "TLSv1.3"
  std::string version() const;
  std::string chosen_protocol() const;
  /// Whether the server has announced its end (close_notify).
  bool was_told_the_end() const;

  /// These bytes as TLS records; `send_sealed` sends a part of them.
  std::string seal(std::string_view bytes);
  bool send_sealed(std::string_view record);
  /// Announces that nothing more will be sent (close_notify).
  bool say_the_end();

 protected:
  ssize_t receive(char* bytes, std::size_t most) override;
  ssize_t transmit(const char* bytes, std::size_t count) override;

 private:
  struct context_deleter {
    void operator()(ssl_ctx_st* one) const;
  };

  struct engine_deleter {
    void operator()(ssl_st* one) const;
  };

  std::string take_records();
  bool flush();
  /// Reads the input that TLS waits for from the socket; false if none comes.
  bool feed();

  std::unique_ptr<ssl_ctx_st, context_deleter> context_;
  std::unique_ptr<ssl_st, engine_deleter> engine_;
};

} // namespace troupe::http_test
