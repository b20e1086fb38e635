// Common parts of the checks of GPU ops: a device, the CPU's kernels as reference, random inputs,
// comparisons, times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/bfloat16.hpp"
#include "kernels/context.hpp"
#include "kernels/cuda/device.hpp"

namespace troupe::gpu_check {

/// The card's limits, with which measured times are compared.
struct card_limits {
  double bytes_per_second = 0.0;
  double flops_per_second = 0.0;
};

struct check_options {
  /// Only these ops; empty: all.
  std::vector<std::string> only;
  /// Small shapes: for the emulation, and for compute-sanitizer, which is some 50 times slower.
  bool small = false;
  /// Whether to measure, too.
  bool times = false;
  /// Known limits; otherwise measured on demand.
  std::optional<card_limits> limits;
  std::uint64_t seed = 0;
  /// After this many seconds the table of results is printed, and the process ends; 0: no limit.
  unsigned seconds = 0;
};

/// An array in device memory; holds NaN until something is written.
template <class T>
class device_array {
 public:
  device_array() = default;

  device_array(const kernels::cuda::stream& on, std::size_t count)
      : memory_(count * sizeof(T)), count_(count) {
    on.fill(memory_.data(), 0xFF, memory_.size());
    on.synchronize();
  }

  device_array(const kernels::cuda::stream& on, std::span<const T> values) : device_array(on, values.size()) {
    on.copy_to_device(memory_.data(), values.data(), values.size_bytes());
    on.synchronize();
  }

  device_array(const kernels::cuda::stream& on, const std::vector<T>& values)
      : device_array(on, std::span<const T>(values)) {}

  T* data() const { return memory_.template as<T>(); }

  std::size_t size() const { return count_; }

  std::vector<T> download(const kernels::cuda::stream& on) const {
    std::vector<T> values(count_);
    on.copy_to_host(values.data(), memory_.data(), memory_.size());
    on.synchronize();
    return values;
  }

 private:
  kernels::cuda::device_memory memory_;
  std::size_t count_ = 0;
};

/// Allowed differences of results.
struct tolerance {
  /// Of ‖got − want‖ / ‖want‖.
  double relative = 0.0;
  /// Of one |got − want|, relative to |want| plus the root mean square of all wanted.
  double element = 0.0;
};

/// For sums of `length` BF16 products in FP32, kept as FP32, in another order than the reference's: typically
/// both sides differ by √length times half a unit; eight times as much is an error.
tolerance tolerance_f32(std::size_t length);

/// The same rounded to BF16: occasionally the other neighbour, 2⁻⁸ to 2⁻⁷ apart.
tolerance tolerance_bf16(std::size_t length);

/// The fewest bytes and operations for an op on these inputs.
struct work_floor {
  double bytes = 0.0;
  double flops = 0.0;
};

/// One run of all checks.
class session {
 public:
  explicit session(const check_options& options);

  const check_options& options() const { return options_; }

  const kernels::cuda::stream& on() const { return on_; }

  /// The reference.
  kernels::context& cpu() { return cpu_; }

  std::mt19937_64& random() { return random_; }

  std::vector<float> normal(std::size_t count, float scale = 1.0F);
  std::vector<kernels::bfloat16> normal_bf16(std::size_t count, float scale = 1.0F);
  /// Uniform in [0, `limit`).
  std::uint32_t below(std::uint32_t limit);

  /// Begins an op's checks; false: not wanted.
  bool begin(const std::string& op);

  /// @param what  shape and variant, for the report
  void compare(const std::string& what, std::span<const float> got, std::span<const float> want,
               tolerance allowed);
  void compare(const std::string& what, std::span<const kernels::bfloat16> got,
               std::span<const kernels::bfloat16> want, tolerance allowed);

  /// Integers, or bits: equal or wrong.
  template <class T>
  void compare_exact(const std::string& what, const std::vector<T>& got, const std::vector<T>& want) {
    std::size_t differing = got.size() != want.size() ? 1 : 0;
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i)
      differing += got[i] == want[i] ? 0 : 1;
    note(what, differing == 0, std::to_string(differing) + " values differ");
  }

  void note(const std::string& what, bool right, const std::string& otherwise);

  /// Measures an op whose inputs come in `sets`, more than the L2 cache holds; prints its time over the
  /// floor. Runs it once without a real device.
  void time(const std::string& what, work_floor floor, std::size_t sets,
            const std::function<void(std::size_t)>& launch);

  /// The same for work that cannot be recorded into a graph: several passes are enqueued, each with its
  /// number, by which it chooses its inputs. Returns seconds a pass; 0 if nothing is measured.
  double time_eagerly(const std::string& what, work_floor floor,
                      const std::function<void(std::size_t)>& pass);

  /// A line after the measurements.
  void remark(const std::string& text);

  /// Sets of `set_bytes` that together are four times the L2 cache.
  std::size_t sets_of(std::size_t set_bytes) const;

  /// The op whose checks began last; from any thread.
  std::string current_op() const;

  /// Printed last: a line per op, a line per measurement; from any thread.
  void print_table() const;

  /// Measures the card's limits and prints them. False: that failed, and an H100's are used and printed.
  bool measure_limits();

  bool all_right() const;

 private:
  struct op_result {
    std::string name;
    std::size_t checks = 0;
    std::size_t wrong = 0;
    double worst = 0.0; // error relative to the allowed one
  };

  struct timing {
    std::string what;
    double seconds;
    double floor_seconds;
    double spread; // slowest repetition over the fastest
  };

  double seconds_of(std::size_t launches, std::size_t sets, const std::function<void(std::size_t)>& launch,
                    double& spread) const;
  double median_of(std::size_t launches, const std::function<void()>& work, double& spread) const;
  void add_timing(const std::string& what, const work_floor& floor, double seconds, double spread);
  card_limits measured_limits();

  check_options options_;
  kernels::cuda::device_info device_;
  kernels::cuda::stream on_;
  kernels::thread_pool pool_;
  kernels::context cpu_;
  std::mt19937_64 random_;
  card_limits limits_;
  mutable std::mutex mutex_; // for the table's data
  std::vector<op_result> ops_;
  std::vector<timing> timings_;
  std::vector<std::string> remarks_;
};

} // namespace troupe::gpu_check
