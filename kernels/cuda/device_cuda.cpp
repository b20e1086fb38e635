#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_error.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/memory_lock.hpp"
#include "kernels/cuda/memory_text.hpp"
#include "kernels/cuda/thread_device.hpp"

namespace troupe::kernels::cuda {

namespace {

// The compute capability that the kernels are compiled for: sm_90a code runs on no other chip.
constexpr int compiled_major = 9;
constexpr int compiled_minor = 0;

// CUDA keeps a thread's last error until it is read, and a launch is checked by reading it. A handled error
// must be cleared, so that the next launch does not report it.
void forget_error() {
  cudaGetLastError();
}

// For freeing: a failure there comes from earlier work, whose waiting caller gets the error.
void forget_error_of(cudaError_t status) {
  if (status != cudaSuccess)
    forget_error();
}

// Errors after which the process must be restarted, according to CUDA, or that come from its driver or
// hardware: all later calls return them, too. Other errors concern only the refused call.
bool is_lasting(cudaError_t status) {
  switch (status) {
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorContained:
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorContextIsDestroyed:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
  case cudaErrorTensorMemoryLeak:
  case cudaErrorMpsClientTerminated:
  case cudaErrorExternalDevice:
  case cudaErrorUnknown:
    return true;
  default:
    return false;
  }
}

device_fault fault_of(cudaError_t status) {
  if (status == cudaErrorMemoryAllocation)
    return device_fault::memory;
  return is_lasting(status) ? device_fault::lost : device_fault::call;
}

std::string reason_of(cudaError_t status) {
  return std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
}

// Before freeing in a thread that may never have used a device.
void select_for_release() {
  if (const auto ordinal = thread_device::missing()) {
    forget_error_of(cudaSetDevice(*ordinal));
    thread_device::select(*ordinal);
  }
}

// Frees after the recording what a thread releases while it records a graph, when CUDA does not allow it.
class late_releases {
 public:
  late_releases() : outer_(std::exchange(of_thread(), this)) {}

  ~late_releases() {
    of_thread() = outer_;
    for (const auto& [place, data] : kept_)
      free_memory(place, data);
  }

  late_releases(const late_releases&) = delete;
  late_releases& operator=(const late_releases&) = delete;

  void keep(memory_place place, std::byte* data) { kept_.emplace_back(place, data); }

  /// Null while the thread records nothing.
  static late_releases*& of_thread() {
    static thread_local late_releases* current = nullptr;
    return current;
  }

 private:
  late_releases* outer_;
  std::vector<std::pair<memory_place, std::byte*>> kept_;
};

cudaStream_t native_of(const stream& s) {
  return static_cast<cudaStream_t>(s.native());
}

cudaEvent_t native_of(const event& e) {
  return static_cast<cudaEvent_t>(e.native());
}

device_info describe(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal),
        "read the properties of device " + std::to_string(ordinal));
  device_info info;
  info.ordinal = ordinal;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.memory_bytes = properties.totalGlobalMem;
  info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  info.multiprocessors = static_cast<unsigned>(properties.multiProcessorCount);
  return info;
}

// CUDA's "insufficient driver" often means that there is none.
[[noreturn]] void refuse_driver() {
  int version = 0;
  cudaDriverGetVersion(&version);
  forget_error();
  const auto text = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  throw device_error("look for devices",
                     version == 0 ? "no NVIDIA driver is loaded"
                                  : "the driver is for CUDA " + text(version) + "; this build needs one for "
                                        + text(CUDART_VERSION / 1000 * 1000) + " or later");
}

} // namespace

void check(cudaError_t status, const std::string& operation) {
  if (status == cudaSuccess)
    return;
  forget_error();
  throw device_error(operation, reason_of(status), fault_of(status));
}

bool is_real_device() {
  return true;
}

std::vector<device_info> list_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    refuse_driver();
  if (status == cudaErrorNoDevice) {
    count = 0;
    forget_error();
  } else {
    check(status, "look for devices");
  }
  std::vector<device_info> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal)
    devices.push_back(describe(ordinal));
  return devices;
}

std::string why_unsuitable(const device_info& device) {
  if (device.major == compiled_major && device.minor == compiled_minor)
    return {};
  return device.name + " has compute capability " + std::to_string(device.major) + "."
         + std::to_string(device.minor) + "; this build is for 9.0 (H100, H200) alone";
}

device_info use_device(int ordinal) {
  const auto devices = list_devices();
  const std::string operation = "use device " + std::to_string(ordinal);
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices.size())
    throw device_error(operation, "this machine has " + std::to_string(devices.size()) + " devices");
  const device_info& device = devices[static_cast<std::size_t>(ordinal)];
  if (const std::string reason = why_unsuitable(device); !reason.empty())
    throw device_error(operation, reason);
  check(cudaSetDevice(ordinal), operation);
  thread_device::select(ordinal);
  return device;
}

void select_device(int ordinal) {
  check(cudaSetDevice(ordinal), "use device " + std::to_string(ordinal));
  thread_device::select(ordinal);
}

memory_room device_memory_room() {
  memory_room room;
  check(cudaMemGetInfo(&room.free_bytes, &room.total_bytes), "ask how much memory is free");
  return room;
}

std::byte* allocate_memory(memory_place place, std::size_t num_bytes) {
  const std::lock_guard lock{memory_lock()};
  void* data = nullptr;
  const cudaError_t status = place == memory_place::device
                                 ? cudaMalloc(&data, num_bytes)
                                 : cudaHostAlloc(&data, num_bytes, cudaHostAllocDefault);
  if (place == memory_place::device && status == cudaErrorMemoryAllocation) {
    forget_error();
    throw device_error(allocation_text(place, num_bytes),
                       reason_of(status) + "; " + room_text(device_memory_room()), device_fault::memory);
  }
  check(status, allocation_text(place, num_bytes));
  return static_cast<std::byte*>(data);
}

void free_memory(memory_place place, std::byte* data) noexcept {
  if (late_releases* const later = late_releases::of_thread()) {
    later->keep(place, data);
    return;
  }
  const std::lock_guard lock{memory_lock()};
  select_for_release();
  forget_error_of(place == memory_place::device ? cudaFree(data) : cudaFreeHost(data));
}

stream::stream() {
  cudaStream_t native = nullptr;
  // Non-blocking: the legacy default stream would order all streams of the process.
  check(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), "create a stream");
  native_ = native;
}

stream::~stream() {
  select_for_release();
  forget_error_of(cudaStreamDestroy(native_of(*this)));
}

void stream::copy_to_device(void* to, const void* from, std::size_t num_bytes) const {
  if (num_bytes == 0)
    return;
  check(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyHostToDevice, native_of(*this)),
        "copy " + bytes_text(num_bytes) + " to the device");
}

void stream::copy_to_host(void* to, const void* from, std::size_t num_bytes) const {
  if (num_bytes == 0)
    return;
  check(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToHost, native_of(*this)),
        "copy " + bytes_text(num_bytes) + " to the host");
}

void stream::copy_on_device(void* to, const void* from, std::size_t num_bytes) const {
  if (num_bytes == 0)
    return;
  check(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice, native_of(*this)),
        "copy " + bytes_text(num_bytes) + " on the device");
}

void stream::fill(void* to, unsigned char value, std::size_t num_bytes) const {
  if (num_bytes == 0)
    return;
  check(cudaMemsetAsync(to, value, num_bytes, native_of(*this)), "fill " + bytes_text(num_bytes));
}

void stream::wait(const event& of) const {
  check(cudaStreamWaitEvent(native_of(*this), native_of(of), 0), "let a stream wait for an event");
}

void stream::synchronize() const {
  check(cudaStreamSynchronize(native_of(*this)), "wait for a stream");
}

event::event() {
  cudaEvent_t native = nullptr;
  check(cudaEventCreate(&native), "create an event");
  native_ = native;
}

event::~event() {
  select_for_release();
  forget_error_of(cudaEventDestroy(native_of(*this)));
}

void event::record(const stream& on) {
  check(cudaEventRecord(native_of(*this), native_of(on)), "record an event");
}

bool event::is_done() const {
  const cudaError_t status = cudaEventQuery(native_of(*this));
  if (status == cudaErrorNotReady) {
    forget_error();
    return false;
  }
  check(status, "ask whether an event is done");
  return true;
}

void event::synchronize() const {
  check(cudaEventSynchronize(native_of(*this)), "wait for an event");
}

double seconds_between(const event& begin, const event& end) {
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, native_of(begin), native_of(end)), "measure time between events");
  return static_cast<double>(milliseconds) * 1e-3;
}

graph graph::capture(const stream& on, const std::function<void()>& work) {
  const std::lock_guard lock{memory_lock()};
  cudaGraph_t recorded = nullptr;
  {
    const late_releases kept;
    check(cudaStreamBeginCapture(native_of(on), cudaStreamCaptureModeThreadLocal), "begin to record a graph");
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(native_of(on), &recorded);
      if (recorded != nullptr)
        cudaGraphDestroy(recorded);
      forget_error(); // a refused call ends the recording with an error of its own
      throw;
    }
    check(cudaStreamEndCapture(native_of(on), &recorded), "record a graph");
  }
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, recorded, 0);
  cudaGraphDestroy(recorded);
  check(status, "instantiate a graph");
  graph result(executable);
  // Otherwise the first launch would allocate the device's memory for it, and could fail.
  check(cudaGraphUpload(executable, native_of(on)), "upload a graph");
  return result;
}

graph::graph(graph&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}

graph::~graph() {
  if (native_ == nullptr)
    return;
  select_for_release();
  forget_error_of(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(native_)));
}

void graph::launch(const stream& on) const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(native_), native_of(on)), "launch a graph");
}

} // namespace troupe::kernels::cuda
