// One GPU as the host sees it: memory, streams, events, graphs.
//
// Two implementations of this header, chosen when a program is linked: device_cuda.cpp on CUDA's runtime, and
// device_emulated.cpp, which needs no GPU: its memory is the host's, its streams are queues whose work is
// done when somebody waits for it, and its kernels run as fibers (emulation.hpp).
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
  call,   ///< of the one call that was refused
  memory, ///< the device, or the host, has not so much
  lost,   ///< the device is lost to this process, as after a kernel's access to a wrong address
};

/// A call that CUDA or one of its libraries refused.
class device_error : public kernel_error {
 public:
  /// @param operation  what was tried, for example "allocate 12 bytes on the device"
  /// @param reason     what the library says
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
  /// Compute capability: 9 and 0 is what the kernels are compiled for.
  int major = 0;
  int minor = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  unsigned multiprocessors = 0;
};

/// False: no GPU does the work, but the host in its place.
bool is_real_device();

/// All devices of this machine, suitable or not; empty where there are none.
/// @errors device_error when there is no driver, or one too old for this build
std::vector<device_info> list_devices();

/// Why kernels of this build cannot run on such a device; empty: they can.
std::string why_unsuitable(const device_info& device);

/// Makes device `ordinal` the calling thread's: what is made after that lies there.
/// @errors device_error when there is no driver, no such device, or its chip is not one that the kernels are
///         compiled for
device_info use_device(int ordinal);

/// The same for a device that has been used before, without looking at it again: at the begin of whatever
/// any thread may call.
/// @errors device_error
void select_device(int ordinal);

/// Where memory lies.
enum class memory_place : std::uint8_t {
  device, ///< the calling thread's device
  pinned, ///< the host, where devices copy from and to by themselves
};

/// How much memory a device has.
struct memory_room {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

/// Of the calling thread's device, as all its processes leave it. @errors device_error
memory_room device_memory_room();

/// What a device takes for so many bytes: whole pieces of 2 MiB where they are more than 1 MiB.
constexpr std::size_t memory_taken_for(std::size_t num_bytes) {
  constexpr std::size_t small = std::size_t{1} << 20;
  const std::size_t piece = num_bytes > small ? 2 * small : 512;
  return (num_bytes + piece - 1) / piece * piece;
}

/// Takes memory; content undefined. Waits while another thread records a graph.
/// @errors device_error when there is not so much: says how much there is
std::byte* allocate_memory(memory_place place, std::size_t num_bytes);

/// Gives it back, from any thread; waits for work that may use it, except in the emulation. A thread that has
/// selected no device gets the process' last one. Not while this thread records a graph: then it is given
/// back when the recording ends, and the emulation has the recording fail.
void free_memory(memory_place place, std::byte* data) noexcept;

/// Memory in one place; content undefined. Move-only; an empty one has no address.
template <memory_place Place>
class owned_memory {
 public:
  owned_memory() = default;

  /// @errors device_error when there is not so much
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

/// Work in order. Everything but `synchronize` returns at once; what it names must stay until the work is
/// done. One thread uses a stream at a time.
class stream {
 public:
  stream();
  ~stream();
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  /// Host memory has to be pinned for the copy to overlap with other work.
  /// @errors device_error
  void copy_to_device(void* to, const void* from, std::size_t num_bytes) const;
  void copy_to_host(void* to, const void* from, std::size_t num_bytes) const;
  void copy_on_device(void* to, const void* from, std::size_t num_bytes) const;

  /// Sets every byte.
  void fill(void* to, unsigned char value, std::size_t num_bytes) const;

  /// Work given from now on waits for what was recorded in `of`.
  void wait(const event& of) const;

  /// Waits until everything is done.
  /// @errors device_error also for what earlier work did wrong
  void synchronize() const;

  /// CUDA's handle, or the emulation's.
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

  /// Marks the end of what `on` was given so far.
  void record(const stream& on);

  /// Whether that work is done. The emulation does it now.
  bool is_done() const;

  void synchronize() const;

  void* native() const { return native_; }

 private:
  void* native_ = nullptr;
};

/// Seconds between two recorded events that are done. The emulation knows no time: 0.
double seconds_between(const event& begin, const event& end);

/// Work that was recorded once and is given again as one piece: a decode step of one batch size.
class graph {
 public:
  /// Records what `work` gives to `on` instead of doing it, and takes the device's memory for it. Kernels,
  /// copies and fills can be recorded; allocating and synchronizing cannot. Meanwhile other threads wait with
  /// taking and giving back memory.
  /// @errors device_error, what `work` throws: nothing was given to `on`
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
