// A client that speaks TLS and can be told to send half a record.
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
  /// Connects, and does not yet speak.
  explicit tls_client(uint16_t port, const tls_client_options& options = {});
  ~tls_client() override;

  /// False when the server, or this client, refuses.
  bool shake_hands();

  /// Of the certificate that the server has shown: "gateway".
  std::string server_name() const;
  /// "TLSv1.3"
  std::string version() const;
  std::string chosen_protocol() const;
  /// The server has said that this is all (close_notify).
  bool was_told_the_end() const;

  /// These bytes as TLS would send them; `send_sealed` sends what of it is due.
  std::string seal(std::string_view bytes);
  bool send_sealed(std::string_view record);
  /// Says that nothing more will be sent (close_notify).
  bool say_the_end();

 protected:
  ssize_t receive(char* bytes, size_t most) override;
  ssize_t transmit(const char* bytes, size_t count) override;

 private:
  struct context_deleter {
    void operator()(ssl_ctx_st* one) const;
  };

  struct engine_deleter {
    void operator()(ssl_st* one) const;
  };

  std::string take_records();
  bool flush();
  /// Reads from the socket what TLS waits for; false when nothing comes.
  bool feed();

  std::unique_ptr<ssl_ctx_st, context_deleter> context_;
  std::unique_ptr<ssl_st, engine_deleter> engine_;
};

} // namespace troupe::http_test
