#include "kernels/cuda/device.hpp"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

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

TEST(emulated_device, memory_moves_and_an_empty_one_has_no_address) {
  device_memory a(4);
  std::byte* const at = a.data();
  const device_memory b = std::move(a);
  EXPECT_EQ(b.data(), at);
  EXPECT_EQ(device_memory(0).data(), nullptr);
  EXPECT_EQ(pinned_memory(16).size(), 16U);
}

} // namespace troupe::kernels::cuda
