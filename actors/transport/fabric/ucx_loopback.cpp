#include <cstring>

#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <ucs/sys/sock.h>

#include "actors/transport/fabric/repairs_switch.hpp"

// UCX's connections over the loopback interface do without pacing. Where the system's congestion control is
// BBR, the kernel spreads what is sent over time, by a timer for each burst: good manners on a network, but
// within a host there is no congestion, and a fifth of the throughput goes. Pacing cannot be switched off on
// a connection, only never begun, so the control is chosen before connecting and before listening. Other
// connections keep what the administrator has chosen; where it is not BBR, so do these.

namespace {

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof(in));
    return ntohl(in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, address, sizeof(in6));
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) != 0;
  }
  return false;
}

void do_not_pace(int fd) {
  constexpr char without_pacing[] = "reno"; // built into every kernel and open to every user
  char now[16]{};                           // TCP_CA_NAME_MAX
  socklen_t length = sizeof(now) - 1;
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &length) == 0 && std::strncmp(now, "bbr", 3) == 0)
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, without_pacing, sizeof(without_pacing) - 1);
}

template <class Function>
Function* behind(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" __attribute__((visibility("default"))) ucs_status_t
ucs_socket_connect(int fd, const struct sockaddr* dest_addr) {
  static auto* const original = behind<ucs_status_t(int, const sockaddr*)>("ucs_socket_connect");
  if (troupe::wire::repairs_act() && is_loopback(dest_addr))
    do_not_pace(fd);
  return original(fd, dest_addr);
}

extern "C" __attribute__((visibility("default"))) ucs_status_t
ucs_socket_server_init(const struct sockaddr* saddr, socklen_t socklen, int backlog, int silent_bind,
                       int reuse_addr, int* listen_fd) {
  static auto* const original =
      behind<ucs_status_t(const sockaddr*, socklen_t, int, int, int, int*)>("ucs_socket_server_init");
  const auto status = original(saddr, socklen, backlog, silent_bind, reuse_addr, listen_fd);
  if (troupe::wire::repairs_act() && status == UCS_OK && is_loopback(saddr))
    do_not_pace(*listen_fd); // accepted connections inherit it
  return status;
}
