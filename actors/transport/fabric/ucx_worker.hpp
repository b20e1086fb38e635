// One UCX worker: endpoints by worker address, one active-message id, bytes in and bytes out. No UCX header
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct ucp_context;
struct ucp_ep;
struct ucp_worker;

namespace troupe::wire {

/// Settings that UCX takes from the environment, which is written before `ucp_init`. What the operator has
/// set in the environment stands, except for the fields given here explicitly.
struct ucx_settings {
  /// UCX_NET_DEVICES, e.g. "lo" or "eth0,mlx5_0:1"; empty leaves the choice to UCX.
  std::string net_devices;
  /// UCX_TCP_PORT_RANGE, e.g. "20000-20099"; empty means ephemeral ports.
  std::string port_range;
  /// POSIX shared memory to one peer on this host, and nothing else, instead of the network. All senders to
  /// such a worker write to one queue in its memory: a sender that is killed while it fills its slot stops
  /// that queue for ever, so no two peers may share a worker.
  bool shared_memory = false;
};

/// Part of a message, as UCX's scatter lists want it.
struct io_part {
  void* data = nullptr;
  std::size_t length = 0;
};

/// Not thread-safe: the owner serialises every call. Callbacks run inside `progress`, `post`, `receive` and
/// `close`.
class ucx_worker {
 public:
  /// A message that has arrived.
  struct arrival {
    /// The worker at which it has arrived.
    ucx_worker* at = nullptr;
    std::span<const std::byte> head;
    /// The data when it is already here, else null: then `receive` fetches it.
    const std::byte* data = nullptr;
    std::size_t num_bytes = 0;
    /// Names the waiting data for `receive`.
    void* descriptor = nullptr;
  };

  class handler {
   public:
    virtual ~handler();

    /// Must call `receive` for a message whose data is waiting, or return false to leave it.
    virtual bool arrived(const arrival& msg) = 0;
  };

  /// A send or receive that is under way.
  class operation {
   public:
    virtual ~operation();

    /// UCX no longer touches the memory of the operation.
    virtual void ended(bool ok) = 0;

   private:
    friend class ucx_worker;
    ucx_worker* under_way_on_ = nullptr; // null until the call that starts it has returned
    std::optional<bool> early_;          // how it ended before that
  };

  /// Is told when its endpoint breaks.
  class endpoint_owner {
   public:
    virtual ~endpoint_owner();

    /// The endpoint is broken; it still has to be closed, later, outside of this call.
    virtual void endpoint_failed(const char* why) = 0;
  };

  enum class outcome : std::uint8_t { done, pending, failed };

  /// @errors throws `std::runtime_error` that names the UCX call and its status
  ucx_worker(const ucx_settings& settings, handler& owner);

  ucx_worker(const ucx_worker&) = delete;
  ucx_worker& operator=(const ucx_worker&) = delete;

  ~ucx_worker();

  /// Opaque bytes by which peers reach this worker.
  const std::string& address() const { return address_; }

  /// Largest header part of a message on the endpoints of this worker.
  std::size_t max_head_bytes() const { return max_head_bytes_; }

  /// Becomes readable when there may be something to progress, provided that `arm` said so.
  int event_fd() const { return event_fd_; }

  /// Moves things on; returns how much happened, 0 when there is nothing to do.
  unsigned progress();

  /// True when it is safe to sleep on `event_fd`.
  bool arm();

  /// Creates an endpoint; null when UCX refuses the address. `owner` must outlive it.
  ucp_ep* connect(const std::string& address, endpoint_owner& owner);

  /// Sends `head` and `parts`. When `pending`, all of it (the array of parts too) must stay until `op.ended`.
  outcome post(ucp_ep* endpoint, std::span<const std::byte> head, std::span<io_part> parts, operation& op);

  /// Fetches waiting data into `to`. When `pending`, `to` must stay until `op.ended`.
  outcome receive(void* descriptor, std::byte* to, std::size_t num_bytes, operation& op);

  /// Closes by force: pending operations end with an error, some only while `progress` is called.
  void close(ucp_ep* endpoint);

  /// True while a close has not ended.
  bool closing();

  /// True when no operation and no close is under way.
  bool idle() { return under_way_ == 0 && !closing(); }

 private:
  struct callbacks;

  handler& owner_;
  ucp_context* context_ = nullptr;
  ucp_worker* worker_ = nullptr;
  std::string address_;
  std::size_t max_head_bytes_ = 0;
  int event_fd_ = -1;
  std::vector<void*> closing_;
  std::size_t under_way_ = 0;
};

} // namespace troupe::wire
