// A cache in device memory of the most recently used experts, all of which are in pinned memory.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/model/cuda/pinned_matrices.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace troupe::model {

/// Each slot has room for one expert. Copies run on a stream of their own while another stream computes. With
/// events, a copy waits for the last use of its slot, and a computation for the copies that it needs; neither
/// waits for the whole device. `take`, `begin_use` and `end_use` do not wait at all.
///
/// Experts are used in waves: those of a wave keep their slots until it ends. One thread calls at a time.
class expert_slots {
 public:
  /// @param count       at least 1
  /// @param slot_bytes  size of the largest expert
  /// @throws device_error
  expert_slots(std::size_t count, std::size_t slot_bytes);

  std::size_t count() const { return slots_.size(); }

  /// Whether an expert is in a slot.
  bool has(std::uint64_t id) const { return places_.contains(id); }

  /// Adds an expert to the wave. If it is in no slot, starts copying it into the least recently used one.
  /// @param id    of this load of an expert, never 0
  /// @param from  stays until the wave's work is done
  /// @returns its address in device memory; null: all slots belong to the wave
  /// @throws device_error
  const std::byte* take(std::uint64_t id, const pinned_matrices& from);

  /// Work of `compute` from now on waits for the copies of the wave's experts.
  void begin_use(const kernels::cuda::stream& compute);

  /// Ends the wave, whose last use is the work that `compute` has so far.
  void end_use(const kernels::cuda::stream& compute);

  /// Empties all slots after an error, and ends the wave. Waits for copies under way.
  void clear();

  /// How often an expert had to be copied, and how often it was in a slot.
  std::uint64_t num_copies() const { return num_copies_; }

  std::uint64_t num_hits() const { return num_hits_; }

 private:
  struct slot {
    std::uint64_t id = 0;        // 0: empty
    std::uint64_t last_wave = 0; // last wave that used it; 0: none
    bool is_new = false;         // copied in this wave
    kernels::cuda::event copied;
    kernels::cuda::event used;
    std::list<std::size_t>::iterator place; // in `by_use_`
  };

  std::size_t slot_bytes_;
  kernels::cuda::device_memory memory_;
  kernels::cuda::stream copies_;
  std::vector<slot> slots_;                               // after the stream that their events use
  std::unordered_map<std::uint64_t, std::size_t> places_; // id → slot
  std::list<std::size_t> by_use_; // all slots, the most recently used first: those of the wave lead
  std::uint64_t wave_ = 1;
  std::uint64_t num_copies_ = 0;
  std::uint64_t num_hits_ = 0;
};

} // namespace troupe::model
