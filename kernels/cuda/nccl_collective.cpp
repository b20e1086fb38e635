#include "kernels/cuda/nccl_collective.hpp"

#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "kernels/cuda/nccl_api.hpp"

namespace troupe::kernels::cuda {

namespace {

using std::chrono::steady_clock;

// Polling period: NCCL has no event for being ready, or for a lost peer.
constexpr std::chrono::microseconds ask_again{50};

ncclDataType_t type_of(dtype type) {
  if (type == dtype::f32)
    return ncclFloat32;
  if (type == dtype::bf16)
    return ncclBfloat16;
  throw std::invalid_argument("collective: sums of f32 and bf16 only");
}

class nccl_collective final : public collective {
 public:
  nccl_collective(const nccl_api& nccl, const nccl_config& config, const stream& on)
      : nccl_(nccl), config_(config), on_(on) {
    ncclUniqueId id;
    static_assert(sizeof id == sizeof config.group);
    std::memcpy(&id, config.group.data(), sizeof id);
    ncclConfig_t settings = NCCL_CONFIG_INITIALIZER;
    settings.blocking = 0; // calls return, and waiting is done here
    settle(nccl_.init_rank(&group_, static_cast<int>(config.num_ranks), id, static_cast<int>(config.rank),
                           &settings),
           "join");
  }

  ~nccl_collective() override {
    if (broken_)
      return;
    try {
      wait();
      settle(nccl_.finalize(group_), "leave");
      nccl_.destroy(group_);
    } catch (const std::exception&) {
      abort();
    }
  }

  nccl_collective(const nccl_collective&) = delete;
  nccl_collective& operator=(const nccl_collective&) = delete;

  std::size_t rank() const override { return config_.rank; }

  std::size_t num_ranks() const override { return config_.num_ranks; }

  void all_reduce(void* values, std::size_t count, dtype type) override {
    const auto element = type_of(type);
    call("all_reduce",
         [&] { return nccl_.all_reduce(values, values, count, element, ncclSum, group_, stream_of()); });
  }

  void all_gather(const std::byte* mine, std::size_t num_bytes, std::byte* all) override {
    call("all_gather",
         [&] { return nccl_.all_gather(mine, all, num_bytes, ncclUint8, group_, stream_of()); });
  }

  void broadcast(std::byte* data, std::size_t num_bytes, std::size_t root) override {
    if (root >= num_ranks())
      throw std::invalid_argument("collective: a broadcast from a rank that the group does not have");
    call("broadcast", [&] {
      return nccl_.broadcast(data, data, num_bytes, ncclUint8, static_cast<int>(root), group_, stream_of());
    });
  }

  void all_to_all(const std::byte* mine, std::size_t num_bytes, std::byte* all) override {
    call("all_to_all", [&] {
      auto result = nccl_.group_start();
      if (result != ncclSuccess)
        return result;
      const auto is_taken = [&] { return result == ncclSuccess || result == ncclInProgress; };
      for (std::size_t r = 0; r < num_ranks() && is_taken(); ++r) {
        const auto peer = static_cast<int>(r);
        result = nccl_.send(mine + r * num_bytes, num_bytes, ncclUint8, peer, group_, stream_of());
        if (is_taken())
          result = nccl_.receive(all + r * num_bytes, num_bytes, ncclUint8, peer, group_, stream_of());
      }
      const auto ended = nccl_.group_end(); // even if a call failed: the group of calls is open
      return is_taken() ? ended : result;
    });
  }

  void wait() override {
    expect_whole();
    const auto deadline = steady_clock::now() + config_.timeout;
    try {
      reached_.record(on_);
      for (;;) {
        expect_no_error_of_others();
        if (reached_.is_done())
          break;
        if (steady_clock::now() >= deadline)
          break_up("wait", "the others have not come so far in time");
        std::this_thread::sleep_for(ask_again);
      }
      on_.synchronize(); // reports other failures of the stream
    } catch (const device_error& error) {
      broken_ = std::string("wait: ") + error.what();
      abort();
      throw;
    }
  }

 private:
  cudaStream_t stream_of() const { return static_cast<cudaStream_t>(on_.native()); }

  collective_error error() const {
    return collective_error("collective of " + std::to_string(config_.num_ranks) + " GPUs, rank "
                            + std::to_string(config_.rank) + ": " + *broken_);
  }

  void expect_whole() const {
    if (broken_)
      throw error();
  }

  void expect_no_error_of_others() {
    ncclResult_t now = ncclSuccess;
    if (const auto asked = nccl_.state(group_, &now); asked != ncclSuccess)
      now = asked;
    if (now != ncclSuccess && now != ncclInProgress)
      break_up("wait", nccl_.error_string(now));
  }

  void call(const char* operation, const std::function<ncclResult_t()>& work) {
    expect_whole();
    settle(work(), operation);
  }

  /// Waits until NCCL has accepted its work: before that it must not get more.
  void settle(ncclResult_t result, const char* operation) {
    const auto deadline = steady_clock::now() + config_.timeout;
    while (result == ncclInProgress) {
      const auto asked = nccl_.state(group_, &result);
      if (asked != ncclSuccess)
        result = asked;
      if (result != ncclInProgress)
        break;
      if (steady_clock::now() >= deadline)
        break_up(operation, "not all ranks have come in time");
      std::this_thread::sleep_for(ask_again);
    }
    if (result != ncclSuccess)
      break_up(operation, nccl_.error_string(result));
  }

  [[noreturn]] void break_up(const char* operation, const std::string& why) {
    broken_ = std::string(operation) + ": " + why;
    abort(); // ends work on the stream, so that the stream can be waited for
    throw error();
  }

  void abort() {
    if (auto* group = std::exchange(group_, nullptr))
      nccl_.abort(group);
  }

  const nccl_api& nccl_;
  nccl_config config_;
  const stream& on_;
  ncclComm_t group_ = nullptr;
  event reached_;
  std::optional<std::string> broken_;
};

} // namespace

nccl_group_id make_nccl_group_id(const nccl_api& nccl) {
  ncclUniqueId id;
  const auto result = nccl.make_id(&id);
  if (result != ncclSuccess)
    throw collective_error(std::string("NCCL makes no group: ") + nccl.error_string(result));
  nccl_group_id group;
  std::memcpy(group.data(), &id, sizeof id);
  return group;
}

std::unique_ptr<collective> join_nccl_group(const nccl_api& nccl, const nccl_config& config,
                                            const stream& on) {
  if (config.rank >= config.num_ranks)
    throw std::invalid_argument("collective: rank " + std::to_string(config.rank) + " of "
                                + std::to_string(config.num_ranks));
  return std::make_unique<nccl_collective>(nccl, config, on);
}

} // namespace troupe::kernels::cuda
