// Load for tests and measurements of failures: requests of all sizes, counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>
#include <random>

#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>
#include <caf/stateful_actor.hpp>

#include "tests/protocol/transport_fixture.hpp"

namespace troupe::test {

/// The outcomes of the requests.
struct tally {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> answered{0};
  std::atomic<std::uint64_t> failed{0};
  /// Wrong answers.
  std::atomic<std::uint64_t> wrong{0};
  /// Failures other than the end of the peer.
  std::atomic<std::uint64_t> other_errors{0};
  std::atomic<bool> stop{false};
};

struct pump_state {
  static inline const char* name = "pump";
  server_actor server;
  tally* into = nullptr;
  std::mt19937 random;
  std::size_t running = 0;
  bool broken = false;
};

inline void next_request(caf::stateful_actor<pump_state>* self) {
  auto& state = self->state;
  if (state.broken || state.into->stop) {
    if (--state.running == 0)
      self->quit();
    return;
  }
  constexpr std::size_t sizes[] = {0, 64, 8192, 131'072, 1'048'576, 3'000'000};
  const auto size = sizes[state.random() % std::size(sizes)];
  ++state.into->sent;
  self->request(state.server, patience, batch{size, "", {patterned(size, size)}})
      .then(
          [self, size](const batch& x) {
            auto& st = self->state;
            ++st.into->answered;
            if (x.id != size + 1 || x.parts.size() != 1 || x.parts.front() != patterned(size, size))
              ++st.into->wrong;
            next_request(self);
          },
          [self](const caf::error& err) {
            auto& st = self->state;
            ++st.into->failed;
            if (err != caf::exit_reason::remote_link_unreachable && err != caf::sec::request_receiver_down)
              ++st.into->other_errors;
            st.broken = true;
            next_request(self);
          });
}

/// Keeps six requests in flight until one fails or `into->stop`, then quits.
inline caf::behavior pump(caf::stateful_actor<pump_state>* self, server_actor server, tally* into,
                          unsigned seed) {
  self->state.server = std::move(server);
  self->state.into = into;
  self->state.random.seed(seed);
  self->state.running = 6;
  for (int i = 0; i < 6; ++i)
    next_request(self);
  return {[](caf::unit_t) {}};
}

} // namespace troupe::test
