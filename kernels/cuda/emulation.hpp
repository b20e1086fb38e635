// Kernels without a GPU: each thread of a block is a fiber of the calling thread, and blocks follow one
// another.
//
// What a GPU does not say is an error here: threads of a warp that meet in different collectives, and
// barriers that not all threads reach. So are grids and blocks that no GPU takes; shared memory that a kernel
// declares is not counted. Fibers run in a chosen order between barriers, so a missing barrier shows as a
// result that depends on the order. Built with the address sanitizer, reads and writes out of bounds show
// too.
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

/// What a running thread knows about itself.
struct thread_place {
  dimensions thread;
  dimensions block;
  dimensions block_size;
  dimensions grid_size;
};

/// The running thread's.
const thread_place& place();

/// In which order the threads of a block run between barriers.
enum class order : std::uint8_t { rising, falling, mixed };

/// For all kernels from now on; rising to begin with.
void set_order(order of_threads);

/// Runs `kernel` as every thread of the grid, one block after the other; ends the process when threads break
/// the rules above.
/// @param shared_bytes  dynamic shared memory; filled with 0xA5 before each block
void run(const char* name, dimensions grid, dimensions block, std::size_t shared_bytes,
         const std::function<void()>& kernel);

/// The block's dynamic shared memory, 128-byte aligned.
std::byte* shared_memory();

/// Waits until every thread of the block has come here.
void block_barrier();

/// Waits until all 32 lanes have come here with `value`; then `all` holds theirs, in order of lane.
/// @param kind       names the collective: all lanes must come to the same one
/// @param num_bytes  of one value, at most 64
/// @returns the lanes' values, `num_bytes` apart; valid until the lane's next collective
const std::byte* exchange(const char* kind, const void* value, std::size_t num_bytes);

/// The thread's copy to shared memory, in the group that it gathers; done when it waits for that group.
/// @param from  null: zeros
void copy_later(void* to, const void* from, std::size_t num_bytes);

/// Ends the group that the thread gathers.
void end_copy_group();

/// Does what the thread's groups have to copy, except for the `left` latest ones.
void wait_for_copies(std::size_t left);

/// Prints the message, kernel and thread, and ends the process.
[[noreturn]] void trap(const char* message);

} // namespace troupe::kernels::cuda::emulation
