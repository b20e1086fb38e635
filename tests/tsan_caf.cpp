// CAF's library is built without the thread sanitizer. The sanitizer then sees neither a message's way from
// sender to receiver, nor that one actor runs on one thread at a time. These are the functions of CAF 0.17 in
// which both meet, with that order made explicit; the dynamic linker finds them before CAF's own, which still
// do the work. Only the thread sanitizer's build links this file (cmake/TroupeTargets.cmake).
#include <cstdio>
#include <cstdlib>

#include <caf/blocking_actor.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/memory_managed.hpp>
#include <caf/ref_counted.hpp>
#include <caf/scheduled_actor.hpp>
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

namespace {

/// CAF's own function of this (mangled) name; `this` is its first parameter.
template <class Function>
Function* original(const char* name) {
  auto* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "tsan_caf: this CAF has no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

} // namespace

namespace caf {

// -- messages: all before the enqueue is before the receiver's look at the element -------------------------

void scheduled_actor::enqueue(mailbox_element_ptr ptr, execution_unit* eu) {
  static auto* const own = original<void(scheduled_actor*, mailbox_element_ptr, execution_unit*)>(
      "_ZN3caf15scheduled_actor7enqueueESt10unique_ptrINS_15mailbox_elementENS_6detail8disposerEE"
      "PNS_14execution_unitE");
  __tsan_release(ptr.get());
  own(this, std::move(ptr), eu);
}

scheduled_actor::activation_result scheduled_actor::reactivate(mailbox_element& x) {
  static auto* const own = original<activation_result(scheduled_actor*, mailbox_element&)>(
      "_ZN3caf15scheduled_actor10reactivateERNS_15mailbox_elementE");
  __tsan_acquire(&x);
  return own(this, x);
}

void blocking_actor::enqueue(mailbox_element_ptr ptr, execution_unit* eu) {
  static auto* const own = original<void(blocking_actor*, mailbox_element_ptr, execution_unit*)>(
      "_ZN3caf14blocking_actor7enqueueESt10unique_ptrINS_15mailbox_elementENS_6detail8disposerEE"
      "PNS_14execution_unitE");
  __tsan_release(ptr.get());
  own(this, std::move(ptr), eu);
}

// An unprocessed message ends with its actor, wherever its mailbox is dropped.
void memory_managed::request_deletion(bool decremented) const noexcept {
  static auto* const own =
      original<void(const memory_managed*, bool)>("_ZNK3caf14memory_managed16request_deletionEb");
  __tsan_acquire(const_cast<memory_managed*>(this));
  own(this, decremented);
}

intrusive::task_result blocking_actor::mailbox_visitor::operator()(mailbox_element& x) {
  static auto* const own = original<intrusive::task_result(mailbox_visitor*, mailbox_element&)>(
      "_ZN3caf14blocking_actor15mailbox_visitorclERNS_15mailbox_elementE");
  __tsan_acquire(&x);
  return own(this, x);
}

// -- actors: creation or the last run of an actor precedes its next run
// ----------------------------------------

void scheduled_actor::launch(execution_unit* eu, bool lazy, bool hide) {
  static auto* const own = original<void(scheduled_actor*, execution_unit*, bool, bool)>(
      "_ZN3caf15scheduled_actor6launchEPNS_14execution_unitEbb");
  __tsan_release(this);
  own(this, eu, lazy, hide);
}

resumable::resume_result scheduled_actor::resume(execution_unit* eu, std::size_t max_throughput) {
  static auto* const own = original<resume_result(scheduled_actor*, execution_unit*, std::size_t)>(
      "_ZN3caf15scheduled_actor6resumeEPNS_14execution_unitEm");
  __tsan_acquire(this);
  const auto result = own(this, eu, max_throughput);
  __tsan_release(this); // the scheduler holds a reference
  return result;
}

// -- reference counts: CAF's own code, seen by the sanitizer -----------------------------------------------

void ref_counted::deref() const noexcept {
  if (unique())
    request_deletion(false);
  else if (rc_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    request_deletion(true);
}

void intrusive_ptr_release_weak(actor_control_block* x) {
  if (x->weak_refs == 1 || x->weak_refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
    x->block_dtor(x);
}

void intrusive_ptr_release(actor_control_block* x) {
  if (x->strong_refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    x->data_dtor(x->get());
    intrusive_ptr_release_weak(x);
  }
}

} // namespace caf
