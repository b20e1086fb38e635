#include "actors/transport/fabric/ucx_dead_peers.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <ucs/sys/sock.h>

#include "actors/transport/fabric/repairs_switch.hpp"

// It must not be a send that finds out that a peer has died: UCX 1.13 tears the endpoint down in the middle
// of what it was sending. It ends a half-sent message twice (uct_tcp_ep_sendv); it aborts because the first
// message to a new peer, which it has just taken from the queue, counts as waiting there still
// (`wireup_ep->pending_count == 0`); and an endpoint on a connection that the peer has begun is destroyed
// before it is made. So a send on a connection that is over looks like one to a full pipe, or like one that
// went well where UCX does not go on without it. The end lies there to be read, and what reads it tears down
// in order.
//
// And what is still to be sent to a dead peer may be the answer to its greeting, for which the purge of the
// queue has an assertion instead of a case.

using troupe::wire::repairs_act;

namespace {

// Then there is an end to read, whatever else.
bool is_over(int fd) {
  pollfd socket{fd, POLLIN, 0};
  return ::poll(&socket, 1, 0) == 1 && (socket.revents & POLLHUP) != 0;
}

bool finds_a_death(ucs_status_t status, int fd) {
  return status != UCS_OK && status != UCS_ERR_NO_PROGRESS && is_over(fd);
}

template <class Function>
Function* behind(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

template <class Function>
bool is_before(Function* ours, const char* name) {
  return dlsym(RTLD_DEFAULT, name) == reinterpret_cast<void*>(ours) && dlsym(RTLD_NEXT, name) != nullptr;
}

// The beginning of uct_pending_req_t.
struct waiting_request {
  ucs_status_t (*send)(waiting_request*);
};

constexpr char greeting_function[] = "ucp_wireup_msg_progress";

} // namespace

extern "C" __attribute__((visibility("default"))) ucs_status_t ucs_socket_send_nb(int fd, const void* data,
                                                                                  std::size_t* length_p) {
  static auto* const original = behind<ucs_status_t(int, const void*, std::size_t*)>("ucs_socket_send_nb");
  const auto status = original(fd, data, length_p);
  if (!repairs_act() || !finds_a_death(status, fd))
    return status;
  *length_p = 0;
  return UCS_ERR_NO_PROGRESS;
}

extern "C" __attribute__((visibility("default"))) ucs_status_t
ucs_socket_sendv_nb(int fd, struct iovec* iov, std::size_t iov_cnt, std::size_t* length_p) {
  static auto* const original =
      behind<ucs_status_t(int, iovec*, std::size_t, std::size_t*)>("ucs_socket_sendv_nb");
  const auto status = original(fd, iov, iov_cnt, length_p);
  if (!repairs_act() || !finds_a_death(status, fd))
    return status;
  *length_p = 0;
  return UCS_ERR_NO_PROGRESS;
}

// Sends all or fails; the few bytes by which two connections become one.
extern "C" __attribute__((visibility("default"))) ucs_status_t ucs_socket_send(int fd, const void* data,
                                                                               std::size_t length) {
  static auto* const original = behind<ucs_status_t(int, const void*, std::size_t)>("ucs_socket_send");
  const auto status = original(fd, data, length);
  return repairs_act() && finds_a_death(status, fd) ? UCS_OK : status;
}

// Not in any header: what UCX calls for every request that waits for an endpoint that has failed.
extern "C" __attribute__((visibility("default"))) void ucp_ep_err_pending_purge(waiting_request* self,
                                                                                void* status) {
  static auto* const original = behind<void(waiting_request*, void*)>("ucp_ep_err_pending_purge");
  static auto* const greeting = behind<ucs_status_t(waiting_request*)>(greeting_function);
  if (!repairs_act() || self->send != greeting) {
    original(self, status);
    return;
  }
  // To send it on a failed endpoint frees it. Where the endpoint has not failed, its worker is being
  // destroyed: what cannot be sent then is forgotten, and costs a few hundred bytes.
  static_cast<void>(greeting(self));
}

namespace troupe::wire {

bool dead_peers_are_survived() {
  return is_before(&ucs_socket_send_nb, "ucs_socket_send_nb")
         && is_before(&ucs_socket_sendv_nb, "ucs_socket_sendv_nb")
         && is_before(&ucs_socket_send, "ucs_socket_send")
         && is_before(&ucp_ep_err_pending_purge, "ucp_ep_err_pending_purge")
         && dlsym(RTLD_NEXT, greeting_function) != nullptr;
}

} // namespace troupe::wire
