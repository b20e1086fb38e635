#include "actors/transport/ucx_event_order.hpp"

#include <dlfcn.h>
#include <ucs/sys/event_set.h>

// uct_tcp_iface_handle_events handles "readable" and then "writable" of one connection. What it reads may be
// the peer's farewell, at which it frees an endpoint that was closed here before: the second step then works
// on freed memory. It happens when we have closed by force while the pipe to a stopped or slow peer was full,
// and the peer comes back. Writing first is safe, as a failed write only schedules the end of an endpoint.

namespace {

struct ordered {
  ucs_event_set_handler_t handler;
  void* arg;
};

void write_then_read(void* data, ucs_event_set_types_t events, void* arg) {
  const auto* to = static_cast<const ordered*>(arg);
  constexpr auto both = UCS_EVENT_SET_EVREAD | UCS_EVENT_SET_EVWRITE;
  if ((events & both) != both) {
    to->handler(data, events, to->arg);
    return;
  }
  to->handler(data, UCS_EVENT_SET_EVWRITE, to->arg);
  to->handler(data, static_cast<ucs_event_set_types_t>(events & ~UCS_EVENT_SET_EVWRITE), to->arg);
}

} // namespace

extern "C" __attribute__((visibility("default"))) ucs_status_t
ucs_event_set_wait(ucs_sys_event_set_t* event_set, unsigned* num_events, int timeout_ms,
                   ucs_event_set_handler_t handler, void* arg) {
  using signature = ucs_status_t (*)(ucs_sys_event_set_t*, unsigned*, int, ucs_event_set_handler_t, void*);
  static const auto original = reinterpret_cast<signature>(dlsym(RTLD_NEXT, "ucs_event_set_wait"));
  ordered to{handler, arg};
  return original(event_set, num_events, timeout_ms, &write_then_read, &to);
}

namespace troupe::wire {

bool events_are_ordered() {
  return dlsym(RTLD_DEFAULT, "ucs_event_set_wait") == reinterpret_cast<void*>(&ucs_event_set_wait)
         && dlsym(RTLD_NEXT, "ucs_event_set_wait") != nullptr;
}

} // namespace troupe::wire
