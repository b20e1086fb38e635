// Runs kernels without a GPU: each thread of a block is a fiber of the calling thread, and blocks run one
// after another.
//
// Stops with an error for faults that a GPU does not report: threads of a warp in different collectives,
// barriers that some threads do not reach, impossible grids and blocks. Statically declared shared memory is
// not counted. Fibers run in a selectable order between barriers, so a missing barrier shows as a result that
// depends on the order. The address sanitizer detects accesses out of bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace troupe::kernels::cuda::emulation {

/// CUDA's dim3.
struct dimensions {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

/// The identity of a running thread.
struct thread_place {
  dimensions thread;
  dimensions block;
  dimensions block_size;
  dimensions grid_size;
};

/// Of the running thread.
const thread_place& place();

/// The order of a block's threads between barriers.
enum class order : std::uint8_t { rising, falling, mixed };

/// For all later kernels; initially rising.
void set_order(order of_threads);

/// Runs `kernel` as every thread of the grid, one block after the other; ends the process for the faults
/// above.
/// @param shared_bytes  dynamic shared memory; filled with 0xA5 before each block
void run(const char* name, dimensions grid, dimensions block, std::size_t shared_bytes,
         const std::function<void()>& kernel);

/// The block's dynamic shared memory, 128-byte aligned.
std::byte* shared_memory();

/// Waits until every thread of the block has arrived.
void block_barrier();

/// Waits until all 32 lanes have arrived with `value`; then `all` holds their values, in order of lane.
/// @param kind       names the collective, which must be the same for all lanes
/// @param num_bytes  of one value, at most 64
/// @returns the lanes' values, `num_bytes` apart; valid until the lane's next collective
const std::byte* exchange(const char* kind, const void* value, std::size_t num_bytes);

/// Adds a copy to shared memory to the thread's current group; done when the thread waits for that group.
/// @param from  null: zeros
void copy_later(void* to, const void* from, std::size_t num_bytes);

/// Ends the thread's current group.
void end_copy_group();

/// Does the copies of the thread's groups, except for the `left` latest ones.
void wait_for_copies(std::size_t left);

/// Prints the message, kernel and thread, and ends the process.
[[noreturn]] void trap(const char* message);

} // namespace troupe::kernels::cuda::emulation
