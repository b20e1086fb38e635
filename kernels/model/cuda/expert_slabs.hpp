// Device memory for experts of one size: many in one allocation, since a device allocates whole pieces of 2
// MiB.
#pragma once

#include "kernels/cuda/device.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::model {

/// Slabs of about 64 MiB, each with room for several experts. A freed place is reused for the next expert. An
/// empty slab is freed, which waits for all work of the device, only if there is another empty one: replacing
/// an expert costs nothing.
///
/// Any thread may take and free places; it must have waited for the work that uses a place before freeing it.
class expert_slabs {
 private:
  struct slab;

 public:
  /// @param expert_bytes  at least 1; a multiple of the required alignment of experts, up to 256
  /// @param most          largest number of experts, at least 1: no slab is larger than that needs
  expert_slabs(std::size_t expert_bytes, std::size_t most);
  ~expert_slabs();
  expert_slabs(const expert_slabs&) = delete;
  expert_slabs& operator=(const expert_slabs&) = delete;

  /// Room for one expert. Must end before the slabs.
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

  /// @throws device_error  the device has no room for another slab
  place take();

  std::size_t experts_in_slab() const { return in_slab_; }

  /// Device memory per expert in full slabs.
  std::size_t bytes_of_expert() const;

  /// Device memory of all slabs.
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
