#include "tests/unit/http/raw_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace troupe::http_test {

raw_client::raw_client(std::uint16_t port, int receive_buffer_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval patience{10, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (receive_buffer_bytes > 0)
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("cannot connect");
}

raw_client::~raw_client() {
  close();
}

void raw_client::close() {
  if (socket_ >= 0)
    ::close(socket_);
  socket_ = -1;
}

void raw_client::half_close() {
  ::shutdown(socket_, SHUT_WR);
}

ssize_t raw_client::receive(char* bytes, std::size_t most) {
  return ::recv(socket_, bytes, most, 0);
}

ssize_t raw_client::transmit(const char* bytes, std::size_t count) {
  return ::send(socket_, bytes, count, MSG_NOSIGNAL);
}

bool raw_client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = transmit(bytes.data(), bytes.size());
    if (sent <= 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool raw_client::request(const std::string& method, const std::string& path, const std::string& body,
                         const std::string& headers) {
  std::string bytes = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers;
  if (!body.empty() || method == "POST")
    bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return send(bytes + "\r\n" + body);
}

bool raw_client::fill() {
  char bytes[16384];
  const ssize_t got = receive(bytes, sizeof bytes);
  if (got <= 0)
    return false;
  buffer_.append(bytes, static_cast<std::size_t>(got));
  return true;
}

bool raw_client::take(std::size_t bytes) {
  const std::size_t until = buffer_.size() + bytes;
  while (buffer_.size() < until)
    if (!fill())
      return false;
  return true;
}

std::string raw_client::read_until(std::string_view end) {
  std::size_t at = 0;
  while ((at = buffer_.find(end)) == std::string::npos)
    if (!fill())
      return std::exchange(buffer_, {});
  std::string result = buffer_.substr(0, at + end.size());
  buffer_.erase(0, at + end.size());
  return result;
}

bool raw_client::ends() {
  if (!buffer_.empty())
    return false;
  char byte = 0;
  const ssize_t got = receive(&byte, 1);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

raw_response raw_client::read(bool head) {
  raw_response result;
  const std::string header = read_until("\r\n\r\n");
  if (!header.ends_with("\r\n\r\n"))
    return result;
  result.status = std::stoi(header.substr(9, 3));
  for (std::size_t at = header.find("\r\n") + 2; at + 2 < header.size();) {
    const std::size_t end = header.find("\r\n", at);
    const std::size_t colon = header.find(':', at);
    std::string name = header.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    result.headers[name] = header.substr(std::min(colon + 2, end), end - std::min(colon + 2, end));
    at = end + 2;
  }
  if (head || result.status == 204 || result.status == 100) {
    result.complete = true;
  } else if (result.headers.count("transfer-encoding") > 0) {
    for (;;) {
      const std::string line = read_until("\r\n");
      if (!line.ends_with("\r\n"))
        return result;
      const std::size_t size = std::stoul(line, nullptr, 16);
      while (buffer_.size() < size + 2)
        if (!fill())
          return result;
      result.body += buffer_.substr(0, size);
      buffer_.erase(0, size + 2);
      if (size == 0)
        break;
    }
    result.complete = true;
  } else if (result.headers.count("content-length") > 0) {
    const std::size_t size = std::stoul(result.headers["content-length"]);
    while (buffer_.size() < size)
      if (!fill())
        return result;
    result.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    result.complete = true;
  } else {
    while (fill()) {
    }
    result.body = std::exchange(buffer_, {});
    result.complete = true;
  }
  return result;
}

raw_response ask(std::uint16_t port, const std::string& method, const std::string& path,
                 const std::string& body, const std::string& headers) {
  raw_client client{port};
  client.request(method, path, body, headers);
  return client.read(method == "HEAD");
}

std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
    const std::size_t end = body.find("\n\n", at);
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end;
  }
  return events;
}

} // namespace troupe::http_test
