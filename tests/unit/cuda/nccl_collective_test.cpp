// NCCL's collectives, with substitutes for NCCL's functions.
#include "kernels/cuda/nccl_collective.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/emulated_faults.hpp"
#include "kernels/cuda/nccl_api.hpp"

namespace troupe::kernels::cuda {
namespace {

// Records the calls, and determines the answers.
struct stand_in {
  std::vector<std::string> calls;
  int states_in_progress = 0; // NCCL is busy for N more calls
  ncclResult_t settled = ncclSuccess;
  std::string fails; // this function does
};

stand_in nccl;

ncclResult_t answer(const std::string& name) {
  nccl.calls.push_back(name);
  return name == nccl.fails ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t answer_later(const std::string& name) {
  const auto result = answer(name);
  return result == ncclSuccess && nccl.states_in_progress > 0 ? ncclInProgress : result;
}

const nccl_api api{
    .error_string =
        [](ncclResult_t code) { return code == ncclRemoteError ? "remote error" : "unhandled cuda error"; },
    .make_id =
        [](ncclUniqueId* id) {
          id->internal[0] = 7;
          return answer("make_id");
        },
    .init_rank =
        [](ncclComm_t* group, int, ncclUniqueId id, int, ncclConfig_t* config) {
          EXPECT_EQ(id.internal[0], 7);
          EXPECT_EQ(config->blocking, 0);
          const auto result = answer_later("init_rank");
          if (result == ncclSuccess || result == ncclInProgress)
            *group = reinterpret_cast<ncclComm_t>(&nccl);
          return result;
        },
    .state =
        [](ncclComm_t, ncclResult_t* now) {
          *now = nccl.states_in_progress > 0 ? ncclInProgress : nccl.settled;
          --nccl.states_in_progress;
          return ncclSuccess;
        },
    .finalize = [](ncclComm_t) { return answer_later("finalize"); },
    .destroy = [](ncclComm_t) { return answer("destroy"); },
    .abort = [](ncclComm_t) { return answer("abort"); },
    .group_start = [] { return answer("group_start"); },
    .group_end = [] { return answer_later("group_end"); },
    .all_reduce =
        [](const void*, void*, std::size_t, ncclDataType_t type, ncclRedOp_t, ncclComm_t, cudaStream_t) {
          return answer_later(type == ncclFloat32 ? "all_reduce f32" : "all_reduce bf16");
        },
    .all_gather = [](const void*, void*, std::size_t, ncclDataType_t, ncclComm_t,
                     cudaStream_t) { return answer_later("all_gather"); },
    .broadcast = [](const void*, void*, std::size_t, ncclDataType_t, int root, ncclComm_t,
                    cudaStream_t) { return answer_later("broadcast " + std::to_string(root)); },
    .send = [](const void*, std::size_t, ncclDataType_t, int peer, ncclComm_t,
               cudaStream_t) { return answer("send " + std::to_string(peer)); },
    .receive = [](void*, std::size_t, ncclDataType_t, int peer, ncclComm_t,
                  cudaStream_t) { return answer("receive " + std::to_string(peer)); },
};

class nccl_collective_test : public testing::Test {
 protected:
  nccl_collective_test() { nccl = {}; }

  std::unique_ptr<collective> join(std::chrono::milliseconds timeout = std::chrono::minutes{1}) {
    return join_nccl_group(
        api, {.group = make_nccl_group_id(api), .rank = 1, .num_ranks = 2, .timeout = timeout}, on_);
  }

  static std::vector<std::string> calls() { return std::exchange(nccl.calls, {}); }

  // Checks that an operation reports the reason.
  template <class Work>
  static std::string error_of(const Work& work) {
    try {
      work();
    } catch (const collective_error& error) {
      return error.what();
    }
    return "";
  }

  using names = std::vector<std::string>;

  stream on_;
  std::byte bytes_[8]{};
};

TEST_F(nccl_collective_test, a_group_is_joined_used_and_left) {
  nccl.states_in_progress = 3;
  {
    const auto group = join();
    EXPECT_EQ(nccl.states_in_progress, -1) << "until NCCL was ready";
    EXPECT_EQ(group->rank(), 1U);
    EXPECT_EQ(group->num_ranks(), 2U);
    EXPECT_EQ(calls(), (names{"make_id", "init_rank"}));
    nccl.states_in_progress = 2;
    group->all_reduce(bytes_, 2, dtype::f32);
    EXPECT_EQ(nccl.states_in_progress, -1) << "NCCL takes one operation at a time";
    group->all_reduce(bytes_, 4, dtype::bf16);
    group->all_gather(bytes_, 4, bytes_);
    group->broadcast(bytes_, 4, 1);
    group->all_to_all(bytes_, 4, bytes_);
    group->wait();
    EXPECT_EQ(calls(), (names{"all_reduce f32", "all_reduce bf16", "all_gather", "broadcast 1", "group_start",
                              "send 0", "receive 0", "send 1", "receive 1", "group_end"}));
    nccl.states_in_progress = 2;
  }
  EXPECT_EQ(calls(), (names{"finalize", "destroy"}));
  EXPECT_EQ(nccl.states_in_progress, -1);
}

TEST_F(nccl_collective_test, who_is_alone_gives_up) {
  nccl.states_in_progress = 1'000'000'000;
  EXPECT_EQ(error_of([&] { join(std::chrono::milliseconds{5}); }),
            "collective of 2 GPUs, rank 1: join: not all ranks have come in time");
  EXPECT_EQ(calls(), (names{"make_id", "init_rank", "abort"}));
}

TEST_F(nccl_collective_test, an_error_breaks_the_group_for_good) {
  for (const std::string fails : {"all_gather", "send 1", "group_end"}) {
    nccl.fails = fails;
    auto group = join();
    calls();
    const auto first = fails == "all_gather" ? error_of([&] { group->all_gather(bytes_, 4, bytes_); })
                                             : error_of([&] { group->all_to_all(bytes_, 4, bytes_); });
    EXPECT_NE(first.find("unhandled cuda error"), std::string::npos) << first;
    const auto made = calls();
    EXPECT_EQ(made.back(), "abort");
    if (fails != "all_gather")
      EXPECT_EQ(made.at(made.size() - 2), "group_end") << "NCCL's group of calls is closed";
    nccl.fails.clear();
    EXPECT_EQ(error_of([&] { group->broadcast(bytes_, 4, 0); }), first);
    EXPECT_EQ(error_of([&] { group->wait(); }), first);
    group.reset();
    EXPECT_EQ(calls(), names{}) << "nothing is left to leave";
  }
}

TEST_F(nccl_collective_test, an_error_that_comes_later_breaks_the_group) {
  auto group = join();
  nccl.states_in_progress = 1;
  nccl.settled = ncclRemoteError;
  EXPECT_EQ(error_of([&] { group->all_reduce(bytes_, 2, dtype::f32); }),
            "collective of 2 GPUs, rank 1: all_reduce: remote error");
}

TEST_F(nccl_collective_test, an_error_that_comes_while_it_is_waited_for_breaks_the_group) {
  auto group = join();
  group->all_reduce(bytes_, 2, dtype::f32);
  calls();
  nccl.settled = ncclRemoteError;
  EXPECT_EQ(error_of([&] { group->wait(); }), "collective of 2 GPUs, rank 1: wait: remote error");
  EXPECT_EQ(calls(), names{"abort"});
}

TEST_F(nccl_collective_test, a_device_that_is_lost_while_it_is_waited_for_breaks_the_group) {
  const auto group = join();
  calls();
  lose_emulated_device(true);
  EXPECT_THROW(group->wait(), device_error);
  lose_emulated_device(false);
  EXPECT_EQ(calls(), names{"abort"});
  const auto later = error_of([&] { group->all_gather(bytes_, 4, bytes_); });
  EXPECT_EQ(later.find("collective of 2 GPUs, rank 1: wait: "), 0U) << later;
}

TEST_F(nccl_collective_test, who_cannot_join_has_nothing_to_abort) {
  nccl.fails = "init_rank";
  EXPECT_EQ(error_of([&] { join(); }), "collective of 2 GPUs, rank 1: join: unhandled cuda error");
  EXPECT_EQ(calls(), (names{"make_id", "init_rank"}));
}

TEST_F(nccl_collective_test, who_cannot_leave_in_order_aborts) {
  auto group = join();
  calls();
  nccl.fails = "finalize";
  group.reset();
  EXPECT_EQ(calls(), (names{"finalize", "abort"}));
}

TEST_F(nccl_collective_test, what_makes_no_sense_is_refused_and_breaks_nothing) {
  EXPECT_THROW(join_nccl_group(api, {.rank = 2, .num_ranks = 2}, on_), std::invalid_argument);
  const auto group = join();
  calls();
  EXPECT_THROW(group->broadcast(bytes_, 4, 2), std::invalid_argument);
  EXPECT_THROW(group->all_reduce(bytes_, 4, dtype::int8), std::invalid_argument);
  EXPECT_EQ(calls(), names{});
  group->wait();
}

TEST_F(nccl_collective_test, who_makes_no_group_says_so) {
  nccl.fails = "make_id";
  EXPECT_EQ(error_of([] { make_nccl_group_id(api); }), "NCCL makes no group: unhandled cuda error");
}

} // namespace
} // namespace troupe::kernels::cuda
