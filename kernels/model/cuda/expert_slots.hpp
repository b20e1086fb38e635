// A cache of experts in device memory: copies of those that were used last, of all that lie in pinned memory.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/model/cuda/pinned_matrices.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace troupe::model {

/// Each slot has room for one expert. Copies run on a stream of their own while another stream computes.
/// Events make a copy wait for the last use of its slot, and a computation wait for the copies that it needs;
/// neither waits for the whole device. `take`, `begin_use` and `end_use` return without waiting for any of
/// it.
///
/// Experts are used in waves: those of a wave keep their slots until it ends. One thread calls at a time.
class expert_slots {
 public:
  /// @param count       at least 1
  /// @param slot_bytes  that the largest expert takes
  /// @errors device_error
  expert_slots(std::size_t count, std::size_t slot_bytes);

  std::size_t count() const { return slots_.size(); }

  /// Whether an expert lies in a slot.
  bool has(std::uint64_t id) const { return places_.contains(id); }

  /// Takes an expert into the wave. If it is in no slot, has it copied into the least recently used one.
  /// @param id    of this load of an expert, never 0
  /// @param from  stays until the wave's work is done
  /// @returns where it begins, in device memory; null: all slots are in the wave
  /// @errors device_error
  const std::byte* take(std::uint64_t id, const pinned_matrices& from);

  /// What `compute` is given from now on finds the wave's experts copied.
  void begin_use(const kernels::cuda::stream& compute);

  /// Ends the wave: its experts were used by what `compute` was given up to now.
  void end_use(const kernels::cuda::stream& compute);

  /// Forgets what lies where, after an error; ends the wave. Waits for copies under way.
  void clear();

  /// How often an expert had to be copied, and how often it was there.
  std::uint64_t num_copies() const { return num_copies_; }

  std::uint64_t num_hits() const { return num_hits_; }

 private:
  struct slot {
    std::uint64_t id = 0;        // 0: empty
    std::uint64_t last_wave = 0; // that used it; 0: none
    bool is_new = false;         // copied in this wave
    kernels::cuda::event copied;
    kernels::cuda::event used;
    std::list<std::size_t>::iterator place; // in `by_use_`
  };

  std::size_t slot_bytes_;
  kernels::cuda::device_memory memory_;
  kernels::cuda::stream copies_;
  std::vector<slot> slots_;                               // after the stream that their events name
  std::unordered_map<std::uint64_t, std::size_t> places_; // id → slot
  std::list<std::size_t> by_use_; // all slots, the most recently used first: those of the wave lead
  std::uint64_t wave_ = 1;
  std::uint64_t num_copies_ = 0;
  std::uint64_t num_hits_ = 0;
};

} // namespace troupe::model
