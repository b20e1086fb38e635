#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/emulated_faults.hpp"
#include "kernels/cuda/emulated_memory.hpp"
#include "kernels/cuda/emulated_stream.hpp"
#include "kernels/cuda/memory_lock.hpp"
#include "kernels/cuda/thread_device.hpp"

namespace troupe::kernels::cuda {

namespace {

emulated_stream& native_of(const stream& s) {
  return *static_cast<emulated_stream*>(s.native());
}

// How often it was recorded, and up to which of these recordings the work is done; a wait refers to the last
// recording before it.
struct emulated_event {
  emulated_stream* on = nullptr;
  std::uint64_t recorded = 0;
  std::uint64_t done = 0;
};

// Shared with work that waits for it and may be done after its end.
using shared_event = std::shared_ptr<emulated_event>;

const shared_event& native_of(const event& e) {
  return *static_cast<const shared_event*>(e.native());
}

void finish(emulated_event& e, std::uint64_t record) {
  while (e.done < record)
    e.on->do_work(1);
}

void finish(emulated_event& e) {
  finish(e, e.recorded);
}

void copy(const stream& on, void* to, const void* from, std::size_t num_bytes) {
  native_of(on).work.emplace_back([=] {
    if (num_bytes != 0)
      std::memcpy(to, from, num_bytes);
  });
}

// About the size of a small graph on a device.
constexpr std::size_t graph_bytes = std::size_t{64} << 10;

// The work of a graph at its launch, and its share of the device's memory.
struct recorded_work {
  explicit recorded_work(const std::deque<std::function<void()>>& from) : pieces(from.begin(), from.end()) {
    emulated_memory::of_process().count(graph_bytes, "upload a graph");
  }

  ~recorded_work() { emulated_memory::of_process().discount(graph_bytes); }

  recorded_work(const recorded_work&) = delete;
  recorded_work& operator=(const recorded_work&) = delete;

  std::vector<std::function<void()>> pieces;
};

// Whether this thread records a graph, and whether it has broken the recording: this refuses what CUDA
// refuses.
thread_local bool is_recording = false;
thread_local bool is_recording_broken = false;

void refuse_while_recording(const char* operation) {
  if (is_recording)
    throw device_error(operation, "a graph is being recorded");
}

std::atomic<std::uint64_t> releases_without_device = 0;

// What a real device does before anything is freed.
void select_for_release() noexcept {
  if (!thread_device::is_selected())
    ++releases_without_device;
  if (const auto ordinal = thread_device::missing())
    thread_device::select(*ordinal);
}

std::atomic<bool> is_lost = false;

void refuse_when_lost(const char* operation) {
  if (is_lost)
    throw device_error(operation, "the device is lost", device_fault::lost);
}

} // namespace

void lose_emulated_device(bool lost) {
  is_lost = lost;
}

void set_emulated_memory(std::size_t num_bytes) {
  emulated_memory::of_process().set_total(num_bytes);
}

std::size_t emulated_memory_taken() {
  return emulated_memory::of_process().taken();
}

std::uint64_t emulated_releases_without_device() {
  return releases_without_device;
}

void emulated_stream::do_work(std::size_t count) {
  for (; count > 0 && !work.empty(); --count) {
    const auto first = std::move(work.front());
    work.pop_front();
    first();
  }
}

bool is_real_device() {
  return false;
}

std::vector<device_info> list_devices() {
  device_info info;
  info.name = "the host's processor, emulating";
  info.major = 9;
  info.multiprocessors = 132;
  info.memory_bytes = emulated_memory::of_process().room().total_bytes;
  info.l2_bytes = std::size_t{50} << 20;
  return {info};
}

std::string why_unsuitable(const device_info&) {
  return {};
}

device_info use_device(int ordinal) {
  if (ordinal != 0)
    throw device_error("use device " + std::to_string(ordinal), "this machine has 1 devices");
  thread_device::select(ordinal);
  return list_devices().front();
}

void select_device(int ordinal) {
  use_device(ordinal);
}

memory_room device_memory_room() {
  return emulated_memory::of_process().room();
}

std::byte* allocate_memory(memory_place place, std::size_t num_bytes) {
  const std::lock_guard lock{memory_lock()};
  refuse_while_recording("allocate memory");
  refuse_when_lost("allocate memory");
  return emulated_memory::of_process().take(place, num_bytes);
}

void free_memory(memory_place, std::byte* data) noexcept {
  const std::lock_guard lock{memory_lock()};
  select_for_release();
  is_recording_broken = is_recording;
  emulated_memory::of_process().give_back(data);
}

stream::stream() : native_(new emulated_stream) {}

stream::~stream() {
  select_for_release();
  delete &native_of(*this);
}

void stream::copy_to_device(void* to, const void* from, std::size_t num_bytes) const {
  copy(*this, to, from, num_bytes);
}

void stream::copy_to_host(void* to, const void* from, std::size_t num_bytes) const {
  copy(*this, to, from, num_bytes);
}

void stream::copy_on_device(void* to, const void* from, std::size_t num_bytes) const {
  copy(*this, to, from, num_bytes);
}

void stream::fill(void* to, unsigned char value, std::size_t num_bytes) const {
  native_of(*this).work.emplace_back([=] {
    if (num_bytes != 0)
      std::memset(to, value, num_bytes);
  });
}

void stream::wait(const event& of) const {
  const auto& awaited = native_of(of);
  native_of(*this).work.emplace_back([awaited, record = awaited->recorded] { finish(*awaited, record); });
}

void stream::synchronize() const {
  refuse_while_recording("wait for a stream");
  emulated_stream& own = native_of(*this);
  while (!own.work.empty())
    own.do_work(1);
  refuse_when_lost("wait for a stream");
}

event::event() : native_(new shared_event(std::make_shared<emulated_event>())) {}

event::~event() {
  select_for_release();
  finish(*native_of(*this)); // its stream may end before the threads that wait
  delete &native_of(*this);
}

void event::record(const stream& on) {
  const auto& own = native_of(*this);
  if (own->on != &native_of(on))
    finish(*own); // only one queue at a time has marks of it
  own->on = &native_of(on);
  own->on->work.emplace_back([own, record = ++own->recorded] { own->done = record; });
}

bool event::is_done() const {
  finish(*native_of(*this));
  return true;
}

void event::synchronize() const {
  refuse_while_recording("wait for an event");
  finish(*native_of(*this));
  refuse_when_lost("wait for an event");
}

double seconds_between(const event&, const event&) {
  return 0.0;
}

graph graph::capture(const stream& on, const std::function<void()>& work) {
  const std::lock_guard lock{memory_lock()};
  emulated_stream& own = native_of(on);
  auto before = std::exchange(own.work, {});
  is_recording = true;
  is_recording_broken = false;
  try {
    work();
  } catch (...) {
    is_recording = false;
    own.work = std::move(before);
    throw;
  }
  is_recording = false;
  const auto recorded = std::exchange(own.work, std::move(before));
  if (std::exchange(is_recording_broken, false))
    throw device_error("record a graph", "memory was given back meanwhile");
  return graph(new recorded_work(recorded));
}

graph::graph(graph&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}

graph::~graph() {
  if (native_ == nullptr)
    return;
  select_for_release();
  delete static_cast<recorded_work*>(native_);
}

void graph::launch(const stream& on) const {
  for (const auto& piece : static_cast<const recorded_work*>(native_)->pieces)
    native_of(on).work.push_back(piece);
}

} // namespace troupe::kernels::cuda
