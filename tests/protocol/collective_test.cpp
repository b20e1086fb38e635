// Collectives of several actor systems over the transport, one thread per rank.
#include "actors/collective/transport_collective.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/collective/collective_messages.hpp"
#include "actors/collective/part_box.hpp"
#include "actors/protocol/type_ids.hpp"
#include "actors/transport/fabric/faults.hpp"
#include "kernels/bfloat16.hpp"

namespace troupe {
namespace {

using kernels::bfloat16;
using kernels::collective;
using kernels::collective_error;
using kernels::dtype;

// Only a test that fails waits this long.
constexpr std::chrono::milliseconds patience{60'000};

struct system_config : caf::actor_system_config {
  system_config() {
    configure(*this);
    configure_transport(*this);
    configure_collectives(*this);
  }
};

/// Once requested, ends connections over which something is sent.
struct line_cutter : fault_injector {
  fault decide(wire::frame_kind, std::size_t) override {
    return {.what = cuts ? fault::action::kill : fault::action::pass};
  }

  std::atomic<bool> cuts = false;
};

/// The parts of one process.
struct process {
  process() : system(config) {
    transport_options options;
    options.listen = "127.0.0.1:0";
    options.secret = "a secret";
    options.net_devices = "lo";
    options.handshake_deadline = patience;
    options.resolve_deadline = patience;
    options.silence = 2 * patience;
    options.faults = cutter;
    options.log = [](const char*, const std::string&) {};
    net = std::make_unique<transport>(system, std::move(options));
  }

  std::shared_ptr<line_cutter> cutter = std::make_shared<line_cutter>();
  system_config config;
  caf::actor_system system;
  std::unique_ptr<transport> net;
};

/// Processes, and a group of all of them.
class ranks {
 public:
  explicit ranks(std::size_t count, std::chrono::milliseconds timeout = patience)
      : processes_(count), ends_(count) {
    collective_config config{
        .group = "tested", .rank = 0, .endpoints = {}, .join_timeout = patience, .exchange_timeout = timeout};
    for (const auto& each : processes_)
      config.endpoints.push_back(each.net->endpoint());
    const auto errors = on_each([&](std::size_t rank) {
      auto mine = config;
      mine.rank = rank;
      ends_[rank] = join_collective(processes_[rank].system, *processes_[rank].net, mine);
    });
    for (const auto& error : errors)
      if (!error.empty())
        throw std::runtime_error(error);
  }

  std::size_t size() const { return ends_.size(); }

  collective& operator[](std::size_t rank) { return *ends_[rank]; }

  void leave(std::size_t rank) { ends_[rank].reset(); }

  /// Ends the connections of a rank when it next sends, as if its process had died.
  void cut_off(std::size_t rank) { processes_[rank].cutter->cuts = true; }

  /// Does something at every rank at the same time.
  /// @returns the error of each rank
  std::vector<std::string> on_each(const std::function<void(std::size_t)>& work) {
    std::vector<std::string> errors(size());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < size(); ++r)
      threads.emplace_back([&, r] {
        try {
          work(r);
        } catch (const std::exception& error) {
          errors[r] = error.what();
        }
      });
    for (auto& thread : threads)
      thread.join();
    return errors;
  }

 private:
  std::vector<process> processes_;
  std::vector<std::unique_ptr<collective>> ends_;
};

const std::vector<std::string> no_errors_of_three(3);

/// A rank's values; another order of summation gives other bits.
template <class T>
std::vector<T> values_of(std::size_t rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank));
  std::normal_distribution<float> normal(0.0F, 100.0F);
  std::vector<T> values(count);
  for (auto& value : values)
    if constexpr (std::is_same_v<T, float>)
      value = normal(random);
    else
      value = kernels::to_bfloat16(normal(random));
  return values;
}

float as_float(float value) {
  return value;
}

float as_float(bfloat16 value) {
  return kernels::to_float(value);
}

/// In order of ranks, in FP32, rounded once.
template <class T>
std::vector<T> sum_of_ranks(std::size_t num_ranks, std::size_t count) {
  std::vector<float> sums(count);
  for (std::size_t r = 0; r < num_ranks; ++r) {
    const auto values = values_of<T>(r, count);
    for (std::size_t i = 0; i < count; ++i)
      sums[i] = r == 0 ? as_float(values[i]) : sums[i] + as_float(values[i]);
  }
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i)
    if constexpr (std::is_same_v<T, float>)
      result[i] = sums[i];
    else
      result[i] = kernels::to_bfloat16(sums[i]);
  return result;
}

template <class T>
bool same_bits(const std::vector<T>& left, const std::vector<T>& right) {
  return left.size() == right.size()
         && (left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(T)) == 0);
}

TEST(collective_test, a_sum_is_added_in_order_of_ranks_and_the_same_everywhere) {
  ranks group(3);
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{1000},
        (std::size_t{16} << 20) / sizeof(float) + 5}) { // more than one piece
    const auto errors = group.on_each([&](std::size_t rank) {
      auto single = values_of<float>(rank, count);
      group[rank].all_reduce(single.data(), count, dtype::f32);
      EXPECT_TRUE(same_bits(single, sum_of_ranks<float>(3, count))) << count << " values, rank " << rank;
      auto half = values_of<bfloat16>(rank, count);
      group[rank].all_reduce(half.data(), count, dtype::bf16);
      EXPECT_TRUE(same_bits(half, sum_of_ranks<bfloat16>(3, count))) << count << " values, rank " << rank;
    });
    EXPECT_EQ(errors, no_errors_of_three);
  }
}

std::byte byte_of(std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<std::byte>(from * 17 + to * 5 + i);
}

TEST(collective_test, bytes_go_where_they_belong) {
  ranks group(3);
  for (const std::size_t num_bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{777}, (std::size_t{16} << 20) + 3}) {
    const auto errors = group.on_each([&](std::size_t rank) {
      std::vector<std::byte> mine(3 * num_bytes);
      for (std::size_t to = 0; to < 3; ++to)
        for (std::size_t i = 0; i < num_bytes; ++i)
          mine[to * num_bytes + i] = byte_of(rank, to, i);
      std::vector<std::byte> want(3 * num_bytes);
      std::vector<std::byte> got(3 * num_bytes);

      group[rank].all_to_all(mine.data(), num_bytes, got.data());
      for (std::size_t from = 0; from < 3; ++from)
        for (std::size_t i = 0; i < num_bytes; ++i)
          want[from * num_bytes + i] = byte_of(from, rank, i);
      EXPECT_TRUE(got == want) << "all_to_all of " << num_bytes;

      group[rank].all_gather(mine.data(), num_bytes, got.data());
      for (std::size_t from = 0; from < 3; ++from)
        for (std::size_t i = 0; i < num_bytes; ++i)
          want[from * num_bytes + i] = byte_of(from, 0, i);
      EXPECT_TRUE(got == want) << "all_gather of " << num_bytes;

      group[rank].broadcast(mine.data(), num_bytes, 2);
      mine.resize(num_bytes);
      EXPECT_TRUE(
          std::equal(mine.begin(), mine.end(), want.begin() + static_cast<std::ptrdiff_t>(2 * num_bytes)))
          << "broadcast of " << num_bytes;
      group[rank].wait();
    });
    EXPECT_EQ(errors, no_errors_of_three);
  }
}

TEST(collective_test, one_rank_is_a_group) {
  ranks group(1);
  auto values = values_of<float>(0, 10);
  group[0].all_reduce(values.data(), 10, dtype::f32);
  EXPECT_EQ(values, values_of<float>(0, 10));
  EXPECT_EQ(group[0].rank(), 0U);
  EXPECT_EQ(group[0].num_ranks(), 1U);
}

TEST(collective_test, a_process_that_dies_breaks_the_group_at_once_and_for_good) {
  ranks group(3);
  group.cut_off(2);
  const auto errors = group.on_each([&](std::size_t rank) {
    std::vector<float> values(100);
    group[rank].all_reduce(values.data(), values.size(), dtype::f32);
  });
  EXPECT_NE((errors[0] + errors[1]).find("rank 2 is gone"), std::string::npos) << errors[0] << "\n"
                                                                               << errors[1];
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(errors[rank].empty());
    EXPECT_THROW(group[rank].wait(), collective_error);
    std::byte byte{};
    try {
      group[rank].broadcast(&byte, 1, 0);
      ADD_FAILURE() << "the group was broken";
    } catch (const collective_error& error) {
      EXPECT_EQ(error.what(), errors[rank]) << "the first reason";
    }
  }
}

TEST(collective_test, who_was_done_may_leave_while_others_are_not) {
  ranks group(3);
  const auto errors = group.on_each([&](std::size_t rank) {
    auto values = values_of<float>(rank, 1000);
    group[rank].all_reduce(values.data(), values.size(), dtype::f32);
    EXPECT_TRUE(same_bits(values, sum_of_ranks<float>(3, 1000)));
    group.leave(rank);
  });
  EXPECT_EQ(errors, no_errors_of_three);
}

TEST(collective_test, a_silent_rank_is_waited_for_no_longer_than_was_said) {
  ranks group(2, std::chrono::milliseconds{200});
  const std::byte mine{};
  std::byte all[2]{};
  try {
    group[0].all_gather(&mine, 1, all);
    ADD_FAILURE() << "rank 1 said nothing";
  } catch (const collective_error& error) {
    EXPECT_EQ(std::string(error.what()),
              "collective of 2 ranks, rank 0: rank 1 has sent nothing for all_gather of 1 from 0 in time");
  }
}

TEST(collective_test, ranks_that_do_different_things_are_told_which) {
  ranks group(2);
  const auto errors = group.on_each([&](std::size_t rank) {
    std::vector<std::byte> bytes(8);
    if (rank == 0)
      group[rank].broadcast(bytes.data(), 8, 0);
    else
      group[rank].broadcast(bytes.data(), 4, 0);
  });
  EXPECT_NE((errors[0] + errors[1]).find("does broadcast from rank 0 of"), std::string::npos)
      << errors[0] << "\n"
      << errors[1];
  EXPECT_FALSE(errors[0].empty());
  EXPECT_FALSE(errors[1].empty());
}

TEST(collective_test, who_finds_not_all_others_says_whom) {
  process alone;
  const collective_config config{.group = "tested",
                                 .rank = 0,
                                 .endpoints = {alone.net->endpoint(), alone.net->endpoint()},
                                 .join_timeout = std::chrono::milliseconds{100}};
  try {
    join_collective(alone.system, *alone.net, config);
    ADD_FAILURE() << "rank 1 does not exist";
  } catch (const collective_error& error) {
    EXPECT_NE(
        std::string(error.what()).find("rank 1 at " + alone.net->endpoint() + " has not joined in time"),
        std::string::npos)
        << error.what();
  }
  auto wrong = config;
  wrong.rank = 2;
  EXPECT_THROW(join_collective(alone.system, *alone.net, wrong), std::invalid_argument);
}

TEST(part_box_test, parts_that_nobody_can_wait_for_break_the_group) {
  const auto broken_by = [](const std::vector<collective_part>& parts) -> std::string {
    part_box box(0, 3);
    for (auto part : parts)
      box.put(std::move(part));
    try {
      box.expect_whole();
    } catch (const collective_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(broken_by({{1, 0, "x", {}}, {1, 1, "x", {}}, {2, 0, "x", {}}}), "");
  EXPECT_NE(broken_by({{3, 0, "x", {}}}).find("rank 3, which is no other rank"), std::string::npos);
  EXPECT_NE(broken_by({{0, 0, "x", {}}}).find("rank 0, which is no other rank"), std::string::npos);
  EXPECT_NE(broken_by({{1, 2, "x", {}}}).find("exchange 2, and exchange 0 is under way"), std::string::npos);
  EXPECT_NE(broken_by({{1, 1, "x", {}}, {1, 1, "x", {}}}).find("exchange 1 twice"), std::string::npos);
}

std::string error_of_take(part_box& box, std::chrono::milliseconds patient) {
  try {
    box.take("x", std::chrono::steady_clock::now() + patient);
  } catch (const collective_error& error) {
    return error.what();
  }
  return "";
}

TEST(part_box_test, a_dead_rank_is_seen_while_another_one_is_slow) {
  part_box box(0, 3);
  std::thread later([&box] { box.lose(2, "killed"); }); // rank 1 never says anything
  EXPECT_EQ(error_of_take(box, patience), "collective of 3 ranks, rank 0: rank 2 is gone: killed");
  later.join();
}

TEST(part_box_test, what_a_rank_sent_before_it_went_is_used_and_the_next_exchange_finds_it_gone) {
  part_box box(0, 2);
  box.begin(0);
  box.put({1, 0, "x", payload::copy_of(std::vector<std::byte>{std::byte{7}})});
  box.lose(1, "done");
  const auto parts = box.take("x", std::chrono::steady_clock::now() + patience);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1], payload::copy_of(std::vector<std::byte>{std::byte{7}}));
  box.begin(1);
  EXPECT_EQ(error_of_take(box, patience), "collective of 2 ranks, rank 0: rank 1 is gone: done");
  EXPECT_THROW(box.begin(2), collective_error);
}

} // namespace
} // namespace troupe
