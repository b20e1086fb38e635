// One GPU as the host sees it: memory, streams, events, graphs.
//
// Two implementations of this header are chosen at link time: device_cuda.cpp on CUDA's runtime, and
// device_emulated.cpp, which needs no GPU. The latter's memory is the host's, its streams are queues whose
// work is done when a thread waits for it, and its kernels run as fibers (emulation.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

enum class device_fault : std::uint8_t {
  call,   ///< affects the refused call only
  memory, ///< the device, or the host, lacks memory
  lost,   ///< this process has lost the device, as after a kernel's access to a wrong address
};

/// A call that CUDA or one of its libraries refused.
class device_error : public kernel_error {
 public:
  /// @param operation  the attempt, for example "allocate 12 bytes on the device"
  /// @param reason     the library's text
  device_error(const std::string& operation, const std::string& reason,
               device_fault fault = device_fault::call)
      : kernel_error("cuda: " + operation + ": " + reason), operation_(operation), fault_(fault) {}

  const std::string& operation() const { return operation_; }

  bool is_device_lost() const noexcept override { return fault_ == device_fault::lost; }

  bool is_out_of_memory() const noexcept override { return fault_ == device_fault::memory; }

 private:
  std::string operation_;
  device_fault fault_;
};

struct device_info {
  int ordinal = 0;
  std::string name;
  /// Compute capability; the kernels are compiled for 9.0.
  int major = 0;
  int minor = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  unsigned multiprocessors = 0;
};

/// False: the host computes in place of a GPU.
bool is_real_device();

/// All devices of this machine, suitable or not; empty if there are none.
/// @throws device_error  there is no driver, or it is too old for this build
std::vector<device_info> list_devices();

/// Why kernels of this build cannot run on such a device; empty: they can.
std::string why_unsuitable(const device_info& device);

/// Selects device `ordinal` for the calling thread: later allocations are made there.
/// @throws device_error  there is no driver or no such device, or the kernels are not compiled for its chip
device_info use_device(int ordinal);

/// The same, without checks, for a device that was used before: at the start of any function that any thread
/// may call.
/// @throws device_error
void select_device(int ordinal);

/// The place of memory.
enum class memory_place : std::uint8_t {
  device, ///< the calling thread's device
  pinned, ///< the host; devices copy from and to it on their own
};

/// The size of a device's memory.
struct memory_room {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

/// For the calling thread's device, shared with all other processes.
/// @throws device_error
memory_room device_memory_room();

/// A device's memory for an allocation of N bytes: whole pieces of 2 MiB if it exceeds 1 MiB.
constexpr std::size_t memory_taken_for(std::size_t num_bytes) {
  constexpr std::size_t small = std::size_t{1} << 20;
  const std::size_t piece = num_bytes > small ? 2 * small : 512;
  return (num_bytes + piece - 1) / piece * piece;
}

/// Allocates memory; content undefined. Waits while another thread records a graph.
/// @throws device_error  there is too little memory; the text says how much there is
std::byte* allocate_memory(memory_place place, std::size_t num_bytes);

/// Frees memory, from any thread; waits for work that may use it, except in the emulation. A thread that has
/// selected no device uses the process' last one. While this thread records a graph, the memory is freed
/// after the recording; the emulation makes the recording fail.
void free_memory(memory_place place, std::byte* data) noexcept;

/// Memory in one place; content undefined. Move-only; an empty one has no address.
template <memory_place Place>
class owned_memory {
 public:
  owned_memory() = default;

  /// @throws device_error  there is too little memory
  explicit owned_memory(std::size_t num_bytes)
      : data_(num_bytes == 0 ? nullptr : allocate_memory(Place, num_bytes)), size_(num_bytes) {}

  std::byte* data() const { return data_.get(); }

  std::size_t size() const { return size_; }

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct release {
    void operator()(std::byte* data) const noexcept { free_memory(Place, data); }
  };

  std::unique_ptr<std::byte, release> data_;
  std::size_t size_ = 0;
};

using device_memory = owned_memory<memory_place::device>;
using pinned_memory = owned_memory<memory_place::pinned>;

class event;

/// An ordered queue of work. All functions but `synchronize` return at once; their arguments must stay valid
/// until the work is done. One thread uses a stream at a time.
class stream {
 public:
  stream();
  ~stream();
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  /// The copy overlaps with other work only if the host memory is pinned.
  /// @throws device_error
  void copy_to_device(void* to, const void* from, std::size_t num_bytes) const;
  void copy_to_host(void* to, const void* from, std::size_t num_bytes) const;
  void copy_on_device(void* to, const void* from, std::size_t num_bytes) const;

  /// Sets every byte.
  void fill(void* to, unsigned char value, std::size_t num_bytes) const;

  /// Later work waits for what was recorded in `of`.
  void wait(const event& of) const;

  /// Waits until all work is done.
  /// @throws device_error, also for failures of earlier work
  void synchronize() const;

  /// The handle of CUDA or of the emulation.
  void* native() const { return native_; }

 private:
  void* native_ = nullptr;
};

/// A point in a stream's work.
class event {
 public:
  event();
  ~event();
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  /// Marks the end of the work that `on` has so far.
  void record(const stream& on);

  /// Whether that work is done. The emulation does it now.
  bool is_done() const;

  void synchronize() const;

  void* native() const { return native_; }

 private:
  void* native_ = nullptr;
};

/// Seconds between two recorded events that are done. The emulation has no time: 0.
double seconds_between(const event& begin, const event& end);

/// Work that was recorded once and can be repeated as one piece: a decode step of one batch size.
class graph {
 public:
  /// Records the work that `work` gives to `on` instead of doing it, and allocates the device's memory for
  /// it. Kernels, copies and fills can be recorded; allocating and synchronizing cannot. Meanwhile other
  /// threads wait when they allocate or free memory.
  /// @throws device_error, and exceptions of `work`: then nothing was given to `on`
  static graph capture(const stream& on, const std::function<void()>& work);

  graph(graph&& other) noexcept;
  graph& operator=(graph&&) = delete;
  ~graph();

  void launch(const stream& on) const;

 private:
  explicit graph(void* native) : native_(native) {}

  void* native_ = nullptr;
};

} // namespace troupe::kernels::cuda
