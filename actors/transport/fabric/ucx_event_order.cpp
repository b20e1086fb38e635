#include "actors/transport/fabric/ucx_event_order.hpp"

#include <dlfcn.h>
#include <ucs/sys/event_set.h>

#include "actors/transport/fabric/repairs_switch.hpp"

// uct_tcp_iface_handle_events reads from a connection and then writes to it. What it reads may be the peer's
// farewell, at which it frees an endpoint that was closed here before: the write then works on freed memory.
// It happens when we have closed by force while the pipe to a stopped or slow peer was full, and the peer
// comes back. To write first is no way out: where the peer has died, UCX 1.13 ends a half-sent message twice
// if it is a send that finds out. So: read, then poll again for what can be written.

namespace {

struct event_round {
  ucs_event_set_handler_t handler;
  void* arg;
  bool deferred = false;
};

constexpr auto both = UCS_EVENT_SET_EVREAD | UCS_EVENT_SET_EVWRITE;

// Who is still readable after a read may have its end in there. More rounds than a full socket takes to
// empty, and the writer gets its turn all the same.
constexpr unsigned rounds_before_writing = 64;

void read_first(void* data, ucs_event_set_types_t events, void* arg) {
  auto* now = static_cast<event_round*>(arg);
  if ((events & both) == both) {
    now->deferred = true;
    events = static_cast<ucs_event_set_types_t>(events & ~UCS_EVENT_SET_EVWRITE);
  }
  now->handler(data, events, now->arg);
}

void write_then(void* data, ucs_event_set_types_t events, void* arg) {
  const auto* now = static_cast<const event_round*>(arg);
  static thread_local unsigned skipped = 0;
  if ((events & UCS_EVENT_SET_EVWRITE) == 0)
    return;
  if ((events & UCS_EVENT_SET_EVREAD) != 0 && ++skipped % rounds_before_writing != 0)
    return;
  now->handler(data, UCS_EVENT_SET_EVWRITE, now->arg);
}

} // namespace

extern "C" __attribute__((visibility("default"))) ucs_status_t
ucs_event_set_wait(ucs_sys_event_set_t* event_set, unsigned* num_events, int timeout_ms,
                   ucs_event_set_handler_t handler, void* arg) {
  using signature = ucs_status_t (*)(ucs_sys_event_set_t*, unsigned*, int, ucs_event_set_handler_t, void*);
  static const auto original = reinterpret_cast<signature>(dlsym(RTLD_NEXT, "ucs_event_set_wait"));
  if (!troupe::wire::repairs_act())
    return original(event_set, num_events, timeout_ms, handler, arg);
  event_round now{handler, arg};
  const auto max_events = *num_events;
  const auto status = original(event_set, num_events, timeout_ms, &read_first, &now);
  if (now.deferred) {
    // Level-triggered: those that still exist and still wait to write are told again.
    auto again = max_events;
    original(event_set, &again, 0, &write_then, &now);
  }
  return status;
}

namespace troupe::wire {

bool events_are_ordered() {
  return dlsym(RTLD_DEFAULT, "ucs_event_set_wait") == reinterpret_cast<void*>(&ucs_event_set_wait)
         && dlsym(RTLD_NEXT, "ucs_event_set_wait") != nullptr;
}

} // namespace troupe::wire
