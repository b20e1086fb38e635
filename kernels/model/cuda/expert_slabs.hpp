// Device memory for experts of one size: many in one piece, since a device gives whole pieces of 2 MiB.
#pragma once

#include "kernels/cuda/device.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::model {

/// Slabs of about 64 MiB, each for as many experts as it has room for. A place that was given back is the
/// next expert's. A slab that is empty is given back to the device, which waits for all its work, if there is
/// another empty one: an expert that goes and one that comes cost nothing.
///
/// Places may be taken and given back by any thread; whoever gives one back has waited for the work that
/// names it.
class expert_slabs {
 private:
  struct slab;

 public:
  /// @param expert_bytes  at least 1; a multiple of what experts' addresses are to be multiples of, up to 256
  /// @param most          experts that there may be: a slab is never larger than they need. At least 1
  expert_slabs(std::size_t expert_bytes, std::size_t most);
  ~expert_slabs();
  expert_slabs(const expert_slabs&) = delete;
  expert_slabs& operator=(const expert_slabs&) = delete;

  /// Room for one expert. Ends before the slabs do.
  class place {
   public:
    place(place&& other) noexcept;
    place& operator=(place&&) = delete;
    ~place();

    std::byte* data() const;

   private:
    friend class expert_slabs;

    place(expert_slabs& of, slab& in, std::uint32_t index) : of_(&of), in_(&in), index_(index) {}

    expert_slabs* of_;
    slab* in_;
    std::uint32_t index_;
  };

  /// @errors device_error: the device has no room for another slab
  place take();

  std::size_t experts_in_slab() const { return in_slab_; }

  /// What an expert takes of the device, where slabs are full.
  std::size_t bytes_of_expert() const;

  /// Taken of the device.
  std::size_t num_bytes() const;

 private:
  void give_back(slab& in, std::uint32_t index) noexcept;

  std::size_t slab_bytes() const { return in_slab_ * expert_bytes_; }

  std::size_t expert_bytes_;
  std::size_t in_slab_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<slab>> slabs_;
};

} // namespace troupe::model
