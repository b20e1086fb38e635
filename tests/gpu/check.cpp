#include "tests/gpu/check.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <thread>

#include "kernels/cuda/many_rows.hpp"

namespace troupe::gpu_check {

namespace {

// Threads of the reference: more only make it wait for itself on small shapes.
constexpr unsigned most_cpu_threads = 8;

constexpr double f32_unit = 0x1p-24;
constexpr double bf16_unit = 0x1p-8;

constexpr std::size_t most_repetitions = 7;
// Launches between two events: this many, or as many as there are sets of inputs.
constexpr std::size_t usual_launches = 20;
constexpr std::size_t most_launches = 1000;

// An idle GPU takes this long to leave its low clocks.
constexpr std::chrono::milliseconds warm_up{50};

// Measured on an H100.
constexpr card_limits h100_limits{.bytes_per_second = 3.0e12, .flops_per_second = 0.8e15};

// The emulation has no time.
std::size_t repetitions() {
  return kernels::cuda::is_real_device() ? most_repetitions : 1;
}

std::size_t launches_of(std::size_t sets) {
  return kernels::cuda::is_real_device() ? std::clamp(sets, usual_launches, most_launches) : 1;
}

bool is_wanted(const check_options& options, const std::string& op) {
  return options.only.empty()
         || std::find(options.only.begin(), options.only.end(), op) != options.only.end();
}

std::vector<float> widened(std::span<const kernels::bfloat16> values) {
  std::vector<float> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), kernels::to_float);
  return result;
}

} // namespace

tolerance tolerance_f32(std::size_t length) {
  const double typical = f32_unit * std::sqrt(static_cast<double>(std::max<std::size_t>(length, 1)));
  return {.relative = 8.0 * typical, .element = 64.0 * typical};
}

tolerance tolerance_bf16(std::size_t length) {
  const tolerance sums = tolerance_f32(length);
  return {.relative = bf16_unit / 4.0 + sums.relative, .element = 2.0 * bf16_unit + sums.element};
}

session::session(const check_options& options)
    : options_(options),
      device_(kernels::cuda::use_device(0)),
      pool_({.threads = std::clamp(std::thread::hardware_concurrency(), 1U, most_cpu_threads)}),
      cpu_(pool_),
      random_(options.seed) {
  std::printf(
      "device %d: %s, compute capability %d.%d, %u multiprocessors, %zu MiB of L2, %zu MiB; seed %llu\n",
      device_.ordinal, device_.name.c_str(), device_.major, device_.minor, device_.multiprocessors,
      device_.l2_bytes >> 20, device_.memory_bytes >> 20, static_cast<unsigned long long>(options.seed));
  if (options.limits)
    limits_ = *options.limits;
  else if (options.times)
    measure_limits();
}

bool session::measure_limits() {
  bool right = true;
  try {
    limits_ = measured_limits();
  } catch (const std::exception& error) {
    std::printf("WRONG limits, not measured, so an H100's are taken: %s\n", error.what());
    limits_ = h100_limits;
    right = false;
  }
  std::printf("copy on the device: %.0f GB/s read and written; dense BF16 product: %.0f TFLOP/s\n",
              limits_.bytes_per_second * 1e-9, limits_.flops_per_second * 1e-12);
  return right;
}

card_limits session::measured_limits() {
  if (!kernels::cuda::is_real_device())
    return {.bytes_per_second = 1e12, .flops_per_second = 1e12};
  card_limits limits;
  double spread = 0.0;
  {
    const std::size_t num_bytes = std::size_t{2} << 30;
    const kernels::cuda::device_memory from(num_bytes);
    const kernels::cuda::device_memory to(num_bytes);
    on_.fill(from.data(), 1, num_bytes);
    const double seconds = seconds_of(
        2, 1, [&](std::size_t) { on_.copy_on_device(to.data(), from.data(), num_bytes); }, spread);
    limits.bytes_per_second = 2.0 * static_cast<double>(num_bytes) / seconds;
  }
  // A product of random numbers, which is slower than one of zeros.
  const std::size_t side = 8192;
  const auto block = normal_bf16(side * side / 64);
  std::vector<kernels::bfloat16> numbers;
  for (std::size_t i = 0; i < 64; ++i)
    numbers.insert(numbers.end(), block.begin(), block.end());
  const device_array<kernels::bfloat16> x(on_, numbers);
  const device_array<kernels::bfloat16> w(on_, numbers);
  const device_array<kernels::bfloat16> y(on_, side * side);
  kernels::cuda::many_rows many(1);
  const double seconds = median_of(
      10,
      [&] {
        for (int i = 0; i < 10; ++i)
          many.multiply(on_, {.outputs = side, .inputs = side, .input = x.data(), .output = y.data()},
                        w.data(), side, false);
      },
      spread);
  limits.flops_per_second =
      2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side) / seconds;
  return limits;
}

std::vector<float> session::normal(std::size_t count, float scale) {
  std::normal_distribution<float> distribution(0.0F, scale);
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return distribution(random_); });
  return values;
}

std::vector<kernels::bfloat16> session::normal_bf16(std::size_t count, float scale) {
  const auto values = normal(count, scale);
  std::vector<kernels::bfloat16> result(count);
  std::transform(values.begin(), values.end(), result.begin(), kernels::to_bfloat16);
  return result;
}

std::uint32_t session::below(std::uint32_t limit) {
  return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(random_);
}

bool session::begin(const std::string& op) {
  if (!is_wanted(options_, op))
    return false;
  const std::lock_guard lock{mutex_};
  ops_.push_back({.name = op});
  return true;
}

void session::note(const std::string& what, bool right, const std::string& otherwise) {
  const std::lock_guard lock{mutex_};
  op_result& op = ops_.back();
  ++op.checks;
  if (right)
    return;
  ++op.wrong;
  std::printf("WRONG %s, %s: %s\n", op.name.c_str(), what.c_str(), otherwise.c_str());
}

void session::compare(const std::string& what, std::span<const float> got, std::span<const float> want,
                      tolerance allowed) {
  if (got.size() != want.size()) {
    note(what, false, "sizes differ");
    return;
  }
  double error_squares = 0.0;
  double want_squares = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error_squares += error * error;
    want_squares += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  const double rms = got.empty() ? 0.0 : std::sqrt(want_squares / static_cast<double>(got.size()));
  double worst = want_squares > 0.0 ? std::sqrt(error_squares / want_squares) / allowed.relative : 0.0;
  std::size_t worst_at = 0;
  double worst_element = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double wanted = static_cast<double>(want[i]);
    const double part = std::abs(static_cast<double>(got[i]) - wanted)
                        / (allowed.element * (std::abs(wanted) + rms) + 1e-300);
    if (!(part <= worst_element)) { // NaN is worse than anything
      worst_element = part;
      worst_at = i;
      if (std::isnan(part))
        break;
    }
  }
  worst = std::isnan(worst_element) ? worst_element : std::max(worst, worst_element);
  const bool right = worst <= 1.0;
  {
    const std::lock_guard lock{mutex_};
    ops_.back().worst = right ? std::max(ops_.back().worst, worst) : worst;
  }
  char text[160] = "";
  if (!right)
    std::snprintf(text, sizeof text,
                  "%.3g times what is allowed; relative error %.3g; worst at %zu of %zu: %.8g for %.8g",
                  worst, std::sqrt(error_squares / want_squares), worst_at, got.size(),
                  got.empty() ? 0.0 : static_cast<double>(got[worst_at]),
                  want.empty() ? 0.0 : static_cast<double>(want[worst_at]));
  note(what, right, text);
}

void session::compare(const std::string& what, std::span<const kernels::bfloat16> got,
                      std::span<const kernels::bfloat16> want, tolerance allowed) {
  compare(what, widened(got), widened(want), allowed);
}

std::size_t session::sets_of(std::size_t set_bytes) const {
  return kernels::cuda::is_real_device() ? 1 + 4 * device_.l2_bytes / std::max<std::size_t>(set_bytes, 1) : 1;
}

double session::median_of(std::size_t launches, const std::function<void()>& work, double& spread) const {
  const auto warm = std::chrono::steady_clock::now() + warm_up;
  do {
    work();
    on_.synchronize();
  } while (kernels::cuda::is_real_device() && std::chrono::steady_clock::now() < warm);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < repetitions(); ++i) {
    kernels::cuda::event begin;
    kernels::cuda::event end;
    begin.record(on_);
    work();
    end.record(on_);
    end.synchronize();
    seconds.push_back(kernels::cuda::seconds_between(begin, end) / static_cast<double>(launches));
  }
  std::sort(seconds.begin(), seconds.end());
  spread = seconds.front() > 0.0 ? seconds.back() / seconds.front() : 1.0;
  return seconds[seconds.size() / 2];
}

double session::seconds_of(std::size_t launches, std::size_t sets,
                           const std::function<void(std::size_t)>& launch, double& spread) const {
  std::size_t set = 0;
  const auto recorded = kernels::cuda::graph::capture(on_, [&] {
    for (std::size_t i = 0; i < launches; ++i)
      launch(set++ % sets);
  });
  return median_of(
      launches, [&] { recorded.launch(on_); }, spread);
}

void session::add_timing(const std::string& what, const work_floor& floor, double seconds, double spread) {
  const std::lock_guard lock{mutex_};
  timings_.push_back(
      {what, seconds,
       std::max(floor.bytes / limits_.bytes_per_second, floor.flops / limits_.flops_per_second), spread});
}

void session::time(const std::string& what, work_floor floor, std::size_t sets,
                   const std::function<void(std::size_t)>& launch) {
  if (!options_.times)
    return;
  double spread = 0.0;
  const double seconds = seconds_of(launches_of(sets), sets, launch, spread);
  add_timing(what, floor, seconds, spread);
}

double session::time_eagerly(const std::string& what, work_floor floor,
                             const std::function<void(std::size_t)>& pass) {
  if (!options_.times)
    return 0.0;
  double spread = 0.0;
  std::size_t number = 0;
  const std::size_t passes = launches_of(1);
  const double seconds = median_of(
      passes,
      [&] {
        for (std::size_t i = 0; i < passes; ++i)
          pass(number++);
      },
      spread);
  add_timing(what, floor, seconds, spread);
  return seconds;
}

void session::remark(const std::string& text) {
  const std::lock_guard lock{mutex_};
  remarks_.push_back(text);
}

std::string session::current_op() const {
  const std::lock_guard lock{mutex_};
  return ops_.empty() ? "nothing" : ops_.back().name;
}

void session::print_table() const {
  const std::lock_guard lock{mutex_};
  std::printf("\n%-24s %7s %7s %9s\n", "op", "checks", "wrong", "worst");
  for (const op_result& op : ops_)
    std::printf("%-24s %7zu %7zu %8.0f%%\n", op.name.c_str(), op.checks, op.wrong, op.worst * 100.0);
  if (timings_.empty())
    return;
  std::printf("\n%-52s %10s %10s %7s %7s\n", "time", "us", "floor us", "of it", "spread");
  for (const timing& t : timings_)
    std::printf("%-52s %10.2f %10.2f %6.0f%% %7.2f\n", t.what.c_str(), t.seconds * 1e6, t.floor_seconds * 1e6,
                t.seconds > 0.0 ? t.floor_seconds / t.seconds * 100.0 : 0.0, t.spread);
  for (const std::string& remark : remarks_)
    std::printf("%s\n", remark.c_str());
}

bool session::all_right() const {
  return std::all_of(ops_.begin(), ops_.end(),
                     [](const op_result& op) { return op.wrong == 0 && op.checks != 0; });
}

} // namespace troupe::gpu_check
