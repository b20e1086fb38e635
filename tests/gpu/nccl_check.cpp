// Collectives by NCCL on one GPU: NCCL allows one rank per GPU, so this shows that the library is found,
// fits, works on our streams and ends. Exits with status 77 without a GPU for this build.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cuda/nccl_api.hpp"
#include "kernels/cuda/nccl_collective.hpp"

namespace {

namespace cuda = troupe::kernels::cuda;
using troupe::kernels::dtype;

constexpr int skipped = 77;

bool has_gpu() {
  try {
    cuda::use_device(0);
    return true;
  } catch (const cuda::device_error& error) {
    std::printf("skipped: nothing was run on a GPU: %s\n", error.what());
    return false;
  }
}

class checker {
 public:
  bool run() {
    const auto& nccl = cuda::loaded_nccl();
    const auto group = cuda::join_nccl_group(nccl, {.group = cuda::make_nccl_group_id(nccl)}, on_);
    on_.copy_to_device(from_.data(), values_.data(), num_bytes);
    // With one rank the sum, and the broadcast below, change nothing: only an error would be noticed.
    group->all_reduce(from_.data(), values_.size(), dtype::f32);
    on_.fill(to_.data(), 0xFF, num_bytes);
    group->all_gather(from_.data(), num_bytes, to_.data());
    group->broadcast(to_.data(), num_bytes, 0);
    group->wait();
    expect("all_gather", to_);
    on_.fill(to_.data(), 0xFF, num_bytes);
    group->all_to_all(from_.data(), num_bytes, to_.data());
    group->wait();
    expect("all_to_all", to_);
    return is_right_;
  }

 private:
  static constexpr std::size_t count = 1000;
  static constexpr std::size_t num_bytes = count * sizeof(float);

  void expect(const char* what, const cuda::device_memory& memory) {
    std::vector<float> got(count);
    on_.copy_to_host(got.data(), memory.data(), num_bytes);
    on_.synchronize();
    const bool right = got == values_;
    std::printf("%s NCCL, %s of one rank\n", right ? "right" : "WRONG", what);
    is_right_ = is_right_ && right;
  }

  static std::vector<float> rising() {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 0.25F);
    return values;
  }

  cuda::stream on_;
  cuda::device_memory from_{num_bytes};
  cuda::device_memory to_{num_bytes};
  std::vector<float> values_ = rising();
  bool is_right_ = true;
};

} // namespace

int main() {
  if (!has_gpu())
    return skipped;
  try {
    return checker{}.run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("WRONG NCCL: %s\n", error.what());
    return 1;
  }
}
