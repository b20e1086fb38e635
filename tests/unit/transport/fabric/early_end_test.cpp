// When the data of a frame are fetched from a peer that has just died, UCX 1.13 calls back before the call
// that begins the fetch has returned. A separate program, because it replaces functions of UCX.
#include <array>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include "actors/transport/fabric/ucx_worker.hpp"

namespace {

// The beginning of ucp_request_param_t: only the transport includes its header.
struct request_parameters {
  std::uint32_t mask;
  std::uint32_t flags;
  void* request;
  void (*received)(void* request, std::int8_t status, std::size_t num_bytes, void* user_data);
  std::uint64_t datatype;
  void* user_data;
};

char request;
std::int8_t early_status; // 0: all arrived
int freed;

} // namespace

extern "C" void* ucp_am_recv_data_nbx(void*, void*, void*, std::size_t num_bytes,
                                      const request_parameters* parameters) {
  parameters->received(&request, early_status, num_bytes, parameters->user_data);
  EXPECT_EQ(freed, 0); // UCX still returns it
  return &request;
}

extern "C" void ucp_request_free(void* what) {
  EXPECT_EQ(what, &request);
  ++freed;
}

namespace troupe::wire {
namespace {

struct nobody : ucx_worker::handler {
  bool arrived(const ucx_worker::arrival&) override { return false; }
};

struct fetch : ucx_worker::operation {
  void ended(bool) override { ADD_FAILURE() << "the outcome of `receive` said so already"; }
};

TEST(fetch_that_ends_early, is_what_receive_returns) {
  nobody owner;
  ucx_settings settings;
  settings.net_devices = "lo";
  ucx_worker worker(settings, owner);
  std::array<std::byte, 64> to{};
  const auto receive = [&](std::int8_t status) {
    early_status = status;
    freed = 0;
    fetch op;
    const auto outcome = worker.receive(to.data(), to.data(), to.size(), op);
    EXPECT_EQ(freed, 1);
    EXPECT_TRUE(worker.idle());
    return outcome;
  };
  EXPECT_EQ(receive(-25), ucx_worker::outcome::failed);
  EXPECT_EQ(receive(0), ucx_worker::outcome::done);
}

} // namespace
} // namespace troupe::wire
