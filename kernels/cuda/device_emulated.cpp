#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/emulated_faults.hpp"
#include "kernels/cuda/emulated_stream.hpp"

namespace troupe::kernels::cuda {

namespace {

// What nobody has written yet: a NaN in BF16 and in FP32.
constexpr int poison = 0xFF;

emulated_stream& native_of(const stream& s) {
  return *static_cast<emulated_stream*>(s.native());
}

// How often it was recorded, and up to which of these the work is done: whoever waits waits for the last one
// before.
struct emulated_event {
  emulated_stream* on = nullptr;
  std::uint64_t recorded = 0;
  std::uint64_t done = 0;
};

// Shared with work that waits for it and may be done behind its end.
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

using recorded_work = std::vector<std::function<void()>>;

// Whether this thread records a graph: what CUDA refuses then is refused here.
thread_local bool is_recording = false;

void refuse_while_recording(const char* operation) {
  if (is_recording)
    throw device_error(operation, "a graph is being recorded");
}

std::atomic<bool> is_lost = false;

void refuse_when_lost(const char* operation) {
  if (is_lost)
    throw device_error(operation, "the device is lost", true);
}

} // namespace

void lose_emulated_device(bool lost) {
  is_lost = lost;
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
  info.memory_bytes = std::size_t{1} << 30;
  info.l2_bytes = std::size_t{50} << 20;
  return {info};
}

std::string why_unsuitable(const device_info&) {
  return {};
}

device_info use_device(int ordinal) {
  if (ordinal != 0)
    throw device_error("use device " + std::to_string(ordinal), "this machine has 1 devices");
  return list_devices().front();
}

void select_device(int ordinal) {
  use_device(ordinal);
}

std::byte* allocate_memory(memory_place, std::size_t num_bytes) {
  refuse_while_recording("allocate memory");
  refuse_when_lost("allocate memory");
  // malloc, and of just the size: the address sanitizer finds what lies beside it.
  auto* data = static_cast<std::byte*>(std::malloc(num_bytes));
  if (data == nullptr)
    throw device_error("allocate " + std::to_string(num_bytes) + " bytes", "the host has not so much");
  std::memset(data, poison, num_bytes);
  return data;
}

void free_memory(memory_place, std::byte* data) noexcept {
  std::free(data);
}

stream::stream() : native_(new emulated_stream) {}

stream::~stream() {
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
  finish(*native_of(*this)); // its stream may end before whoever waits
  delete &native_of(*this);
}

void event::record(const stream& on) {
  const auto& own = native_of(*this);
  if (own->on != &native_of(on))
    finish(*own); // one queue at a time has marks of it
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
  emulated_stream& own = native_of(on);
  auto before = std::exchange(own.work, {});
  is_recording = true;
  try {
    work();
  } catch (...) {
    is_recording = false;
    own.work = std::move(before);
    throw;
  }
  is_recording = false;
  const auto recorded = std::exchange(own.work, std::move(before));
  return graph(new recorded_work(recorded.begin(), recorded.end()));
}

graph::graph(graph&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}

graph::~graph() {
  delete static_cast<recorded_work*>(native_);
}

void graph::launch(const stream& on) const {
  for (const auto& piece : *static_cast<const recorded_work*>(native_))
    native_of(on).work.push_back(piece);
}

} // namespace troupe::kernels::cuda
