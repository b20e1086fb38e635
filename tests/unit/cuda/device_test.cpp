#include "kernels/cuda/device.hpp"

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/emulated_faults.hpp"
#include "kernels/cuda/memory_lock.hpp"
#include "kernels/cuda/thread_device.hpp"
#include "tests/unit/cuda/emulated_room.hpp"

namespace troupe::kernels::cuda {

TEST(emulated_device, work_is_done_when_somebody_waits_for_it) {
  const stream on;
  const std::vector<int> from{1, 2, 3};
  const device_memory memory(3 * sizeof(int));
  std::vector<int> back(3);
  on.copy_to_device(memory.data(), from.data(), memory.size());
  on.copy_to_host(back.data(), memory.data(), memory.size());
  EXPECT_EQ(back, std::vector<int>(3)) << "nobody has waited yet";
  on.synchronize();
  EXPECT_EQ(back, from);
}

TEST(emulated_device, a_stream_waits_for_an_event_of_another) {
  const stream first;
  const stream second;
  const device_memory memory(1);
  unsigned char seen = 0;
  event written;
  first.fill(memory.data(), 7, 1);
  written.record(first);
  first.fill(memory.data(), 8, 1);
  second.wait(written);
  second.copy_to_host(&seen, memory.data(), 1);
  second.synchronize();
  EXPECT_EQ(seen, 7) << "what was recorded is done, and what came after is not";
  first.synchronize();
  second.copy_to_host(&seen, memory.data(), 1);
  second.synchronize();
  EXPECT_EQ(seen, 8);
}

TEST(emulated_device, a_graph_does_its_work_each_time_it_is_launched_and_never_when_recorded) {
  const stream on;
  const device_memory memory(2);
  const graph recorded = graph::capture(on, [&] { on.copy_on_device(memory.data(), memory.data() + 1, 1); });
  on.fill(memory.data(), 1, 1);
  on.fill(memory.data() + 1, 5, 1);
  on.synchronize();
  EXPECT_EQ(memory.as<unsigned char>()[0], 1);
  recorded.launch(on);
  on.synchronize();
  EXPECT_EQ(memory.as<unsigned char>()[0], 5);
  on.fill(memory.data() + 1, 6, 1);
  recorded.launch(on);
  on.synchronize();
  EXPECT_EQ(memory.as<unsigned char>()[0], 6);
}

TEST(emulated_device, fresh_memory_is_no_number) {
  const device_memory memory(sizeof(float));
  float value = 0.0F;
  std::memcpy(&value, memory.data(), sizeof value);
  EXPECT_NE(value, value);
}

TEST(emulated_device, a_device_that_is_not_there_is_an_error_that_names_it) {
  EXPECT_EQ(use_device(0).ordinal, 0);
  try {
    use_device(3);
    FAIL() << "device 3 was accepted";
  } catch (const device_error& error) {
    EXPECT_EQ(error.operation(), "use device 3");
  }
}

TEST(emulated_device, memory_is_taken_in_pieces_and_ends_with_an_error_that_says_what_is_left) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  const auto before = emulated_memory_taken();
  const test::emulated_room room(5 * mebibyte);
  EXPECT_EQ(device_memory_room().free_bytes, 5 * mebibyte);
  EXPECT_EQ(device_memory_room().total_bytes, before + 5 * mebibyte);
  const device_memory first(mebibyte + 1);
  EXPECT_EQ(emulated_memory_taken(), before + 2 * mebibyte);
  const device_memory second(300);
  EXPECT_EQ(emulated_memory_taken(), before + 2 * mebibyte + 512);
  const pinned_memory pinned(10 * mebibyte);
  EXPECT_EQ(emulated_memory_taken(), before + 2 * mebibyte + 512) << "the host's";
  try {
    const device_memory third(3 * mebibyte);
    FAIL() << "there was not so much";
  } catch (const device_error& error) {
    EXPECT_TRUE(error.is_out_of_memory());
    EXPECT_FALSE(error.is_device_lost());
    EXPECT_EQ(error.operation(), "allocate 3145728 bytes on the device");
    EXPECT_NE(std::string{error.what()}.find("out of memory; 2 of the device's "), std::string::npos)
        << error.what();
  }
}

TEST(emulated_device, a_graph_takes_memory_when_it_is_recorded_and_not_when_it_is_launched) {
  const stream on;
  const device_memory memory(2);
  const auto copy = [&] { on.copy_on_device(memory.data(), memory.data() + 1, 1); };
  {
    const test::emulated_room none(0);
    try {
      graph::capture(on, copy);
      FAIL() << "there is no memory for it";
    } catch (const device_error& error) {
      EXPECT_TRUE(error.is_out_of_memory()) << error.what();
    }
  }
  const auto before = emulated_memory_taken();
  const graph recorded = graph::capture(on, copy);
  const test::emulated_room none(0);
  EXPECT_GT(emulated_memory_taken(), before);
  on.fill(memory.data() + 1, 5, 1);
  recorded.launch(on);
  on.synchronize();
  EXPECT_EQ(memory.as<unsigned char>()[0], 5);
}

TEST(emulated_device, giving_memory_back_breaks_a_recording_of_the_same_thread_alone) {
  const stream on;
  device_memory memory(4);
  EXPECT_THROW(graph::capture(on, [&] { memory = {}; }), device_error);
  graph::capture(on, [] {});
  device_memory other(4);
  EXPECT_THROW(graph::capture(on, [&] { const device_memory more(4); }), device_error);
}

TEST(emulated_device, other_threads_take_no_memory_while_one_records) {
  const auto is_free = [] {
    bool result = false;
    std::thread([&] {
      result = memory_lock().try_lock();
      if (result)
        memory_lock().unlock();
    }).join();
    return result;
  };
  const stream on;
  EXPECT_TRUE(is_free());
  graph::capture(on, [&] { EXPECT_FALSE(is_free()); });
  EXPECT_TRUE(is_free());
}

TEST(emulated_device, a_thread_that_gives_back_without_a_device_gets_the_process_last_one) {
  select_device(0);
  device_memory first(4);
  device_memory second(4);
  const auto before = emulated_releases_without_device();
  std::thread([&] {
    EXPECT_FALSE(thread_device::is_selected());
    EXPECT_EQ(thread_device::missing(), 0);
    first = {};
    EXPECT_TRUE(thread_device::is_selected());
    second = {};
  }).join();
  EXPECT_EQ(emulated_releases_without_device(), before + 1);
  std::thread([&] {
    select_device(0);
    const device_memory third(4);
    const event e;
    const stream s;
  }).join();
  EXPECT_EQ(emulated_releases_without_device(), before + 1);
}

TEST(emulated_device, memory_moves_and_an_empty_one_has_no_address) {
  device_memory a(4);
  std::byte* const at = a.data();
  const device_memory b = std::move(a);
  EXPECT_EQ(b.data(), at);
  EXPECT_EQ(device_memory(0).data(), nullptr);
  EXPECT_EQ(pinned_memory(16).size(), 16U);
}

} // namespace troupe::kernels::cuda
