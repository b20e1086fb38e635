#include "services/gateway/template/template_message.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>

namespace troupe::text {

namespace {

using kind = message_error::kind;

/// Waits until the socket is ready for `events`.
/// @throws message_error  the deadline passes
void wait_for(int socket, short events, message_deadline deadline) {
  while (true) {
    int timeout = -1;
    if (deadline != no_deadline) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0)
        throw message_error(kind::late, "no answer in time");
      timeout = static_cast<int>(std::min<std::int64_t>(left.count(), 1'000'000));
    }
    pollfd wanted{socket, events, 0};
    if (poll(&wanted, 1, timeout) > 0)
      return;
  }
}

/// Whether the call must be repeated; waits until the socket is ready for that.
bool again(int socket, short events, message_deadline deadline) {
  if (errno == EINTR)
    return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK)
    return false;
  wait_for(socket, events, deadline);
  return true;
}

void send_all(int socket, const char* bytes, std::size_t size, message_deadline deadline) {
  const int flags = MSG_NOSIGNAL | (deadline == no_deadline ? 0 : MSG_DONTWAIT);
  while (size > 0) {
    const auto sent = send(socket, bytes, size, flags);
    if (sent >= 0) {
      bytes += sent;
      size -= static_cast<std::size_t>(sent);
    } else if (!again(socket, POLLOUT, deadline)) {
      throw message_error(kind::closed, std::string("cannot write: ") + std::strerror(errno));
    }
  }
}

void receive_all(int socket, char* bytes, std::size_t size, message_deadline deadline) {
  const int flags = deadline == no_deadline ? 0 : MSG_DONTWAIT;
  while (size > 0) {
    const auto got = recv(socket, bytes, size, flags);
    if (got > 0) {
      bytes += got;
      size -= static_cast<std::size_t>(got);
    } else if (got == 0) {
      throw message_error(kind::closed, "the other side has closed the connection");
    } else if (!again(socket, POLLIN, deadline)) {
      throw message_error(kind::closed, std::string("cannot read: ") + std::strerror(errno));
    }
  }
}

} // namespace

void send_message(int socket, std::span<const std::string_view> strings, message_deadline deadline) {
  std::vector<std::uint32_t> head{static_cast<std::uint32_t>(strings.size())};
  for (const auto one : strings)
    head.push_back(static_cast<std::uint32_t>(one.size()));
  // A short message, as most conversations are, takes one write.
  std::string first(reinterpret_cast<const char*>(head.data()), head.size() * sizeof(std::uint32_t));
  constexpr std::size_t short_string = 64UL << 10U;
  for (const auto one : strings) {
    if (one.size() <= short_string) {
      first += one;
      continue;
    }
    send_all(socket, first.data(), first.size(), deadline);
    first.clear();
    send_all(socket, one.data(), one.size(), deadline);
  }
  send_all(socket, first.data(), first.size(), deadline);
}

template_message receive_message(int socket, std::size_t num_strings, message_deadline deadline) {
  std::vector<std::uint32_t> head(num_strings + 1);
  receive_all(socket, reinterpret_cast<char*>(head.data()), head.size() * sizeof(std::uint32_t), deadline);
  if (head.front() != num_strings) {
    throw message_error(kind::malformed, std::to_string(head.front()) + " strings where "
                                             + std::to_string(num_strings) + " are expected");
  }
  std::size_t total = 0;
  for (std::size_t i = 1; i < head.size(); ++i)
    total += head[i];
  if (total > longest_message)
    throw message_error(kind::malformed, "a message of " + std::to_string(total) + " bytes");
  template_message strings(num_strings);
  for (std::size_t i = 0; i < num_strings; ++i) {
    strings[i].resize(head[i + 1]);
    receive_all(socket, strings[i].data(), strings[i].size(), deadline);
  }
  return strings;
}

} // namespace troupe::text
