// A client that sends exactly the bytes it is told to.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace troupe::http_test {

struct raw_response {
  int status = 0;                             ///< 0: the connection ended instead
  std::map<std::string, std::string> headers; ///< names in lower case
  std::string body;                           ///< chunks put together
  bool complete = false;
};

/// A blocking connection to 127.0.0.1; every read gives up after ten seconds.
class raw_client {
 public:
  explicit raw_client(uint16_t port, int receive_buffer_bytes = 0);
  virtual ~raw_client();
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;

  /// False when the server has closed.
  bool send(std::string_view bytes);
  /// `METHOD path` with a Host header, `headers` (each with its CRLF) and a body with its length.
  bool request(const std::string& method, const std::string& path, const std::string& body = {},
               const std::string& headers = {});
  /// The next response. `head`: it has no body whatever its length says.
  raw_response read(bool head = false);
  /// Takes at least so many further bytes, for the next read; false when the server closes before.
  bool take(size_t bytes);
  /// Bytes up to and with `end`; all there are when the server closes before.
  std::string read_until(std::string_view end);
  /// Whether the server closes without another byte.
  bool ends();
  void close();
  /// Says that nothing more will be sent; answers can still be read.
  void half_close();

 protected:
  /// As ::recv and ::send, of at most so many bytes; tls_client puts its records in between.
  virtual ssize_t receive(char* bytes, size_t most);
  virtual ssize_t transmit(const char* bytes, size_t count);

 private:
  bool fill();
  int socket_ = -1;
  std::string buffer_;
};

/// Sends one request on a connection of its own.
raw_response ask(uint16_t port, const std::string& method, const std::string& path,
                 const std::string& body = {}, const std::string& headers = {});

/// The `data:` lines of a stream, in order.
std::vector<std::string> events_of(const std::string& body);

} // namespace troupe::http_test
