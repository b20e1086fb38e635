// Failure injection for tests: what becomes of a frame that is about to be sent. Off unless a test hands one
// in.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>

#include "actors/transport/wire/frame.hpp"

namespace troupe {

/// What happens to one outgoing frame.
struct fault {
  enum class action : std::uint8_t {
    pass,
    /// It vanishes; only the requester's deadline notices.
    drop,
    /// It is sent later; frames behind it overtake.
    delay,
    /// It is sent twice.
    duplicate,
    /// The connection ends as if the peer had died.
    kill,
  };

  action what = action::pass;
  std::chrono::milliseconds later{0};
};

class fault_injector {
 public:
  virtual ~fault_injector();

  /// Decides over one frame to one peer. Called by any thread.
  virtual fault decide(wire::frame_kind kind, std::size_t num_bytes) = 0;
};

/// Draws faults of actor messages from a seeded generator, so that a test can be run again.
class seeded_faults : public fault_injector {
 public:
  /// Chances of each fault, in units of one in a thousand; together at most 1000.
  struct chances {
    unsigned drop = 0;
    unsigned delay = 0;
    unsigned duplicate = 0;
    unsigned kill = 0;
    std::chrono::milliseconds longest_delay{20};
  };

  seeded_faults(std::uint64_t seed, chances odds);

  fault decide(wire::frame_kind kind, std::size_t num_bytes) override;

 private:
  std::mutex mutex_;
  std::mt19937_64 random_;
  chances odds_;
};

} // namespace troupe
