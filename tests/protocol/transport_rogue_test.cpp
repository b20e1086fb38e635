// The transport with strangers on its socket, and with a peer that knows the secret and sends nonsense.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <caf/binary_serializer.hpp>
#include <caf/node_id.hpp>
#include <caf/send.hpp>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "actors/transport/fabric/socket.hpp"
#include "actors/transport/fabric/ucx_worker.hpp"
#include "actors/transport/wire/frame.hpp"
#include "actors/transport/wire/handshake.hpp"
#include "tests/protocol/transport_fixture.hpp"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

// A blocking socket to a port on loopback.
class stranger {
 public:
  explicit stranger(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("cannot connect");
  }

  void send(std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  void send(const std::string& text) { send(std::as_bytes(std::span{text})); }

  // The next bytes; empty at the end of the stream.
  std::vector<std::byte> receive() {
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds{patience}.count())) != 1)
      throw std::runtime_error("nothing came");
    std::vector<std::byte> result(65'536);
    const auto num_bytes = ::recv(socket_.get(), result.data(), result.size(), 0);
    result.resize(num_bytes > 0 ? static_cast<std::size_t>(num_bytes) : 0);
    return result;
  }

  // Reads, past heartbeats, until the end of the stream; false if it does not come.
  bool closed_by_peer() {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!receive().empty())
      if (std::chrono::steady_clock::now() > end)
        return false;
    return true;
  }

 private:
  wire::descriptor socket_;
};

// A node id as written by the CAF half, different every time.
std::string fresh_node(caf::actor_system& sys) {
  static std::uint8_t counter = 0;
  caf::node_id::default_data::host_id_type host{};
  host[0] = 1;
  host[1] = ++counter;
  auto id = caf::make_node_id(1, host);
  std::vector<char> bytes;
  caf::binary_serializer sink{sys, bytes};
  EXPECT_FALSE(sink(id));
  return {bytes.data(), bytes.size()};
}

class nobody : public wire::ucx_worker::handler {
 public:
  bool arrived(const wire::ucx_worker::arrival&) override { return false; }
};

// A message with everything that UCX may still read.
struct sending : wire::ucx_worker::operation {
  void ended(bool) override { finished = true; }

  std::vector<std::byte> head;
  std::vector<std::byte> data;
  wire::io_part part;
  bool finished = false;
};

struct owner : wire::ucx_worker::endpoint_owner {
  void endpoint_failed(const char*) override { failed = true; }

  bool failed = false;
};

// Knows the secret, completes the handshake, and then sends what the test wants.
class rogue {
 public:
  explicit rogue(node& victim)
      : worker_({"lo", "", false}, ears_),
        socket_(victim.net->port()),
        protocol_(wire::handshake::role::client, loopback_options().secret,
                  {fresh_node(victim.system), "", "", 77, 1 << 20, 100, worker_.address(), ""}) {}

  ~rogue() {
    if (endpoint_ != nullptr)
      worker_.close(endpoint_);
    while (worker_.closing())
      worker_.progress();
  }

  void shake_hands() {
    socket_.send(protocol_.take_output());
    while (protocol_.current() == wire::handshake::state::waiting) {
      protocol_.feed(socket_.receive());
      if (const auto bytes = protocol_.take_output(); !bytes.empty())
        socket_.send(bytes);
    }
    ASSERT_EQ(protocol_.current(), wire::handshake::state::done) << protocol_.error();
    endpoint_ = worker_.connect(protocol_.peer().worker_address, owner_);
    ASSERT_NE(endpoint_, nullptr);
  }

  wire::frame_header header(wire::frame_kind kind, std::size_t metadata_bytes) {
    wire::frame_header result;
    result.kind = kind;
    result.token = protocol_.peer().token;
    result.metadata_bytes = static_cast<std::uint32_t>(metadata_bytes);
    return result;
  }

  void send_frame(const wire::frame_header& header, const std::string& metadata, std::size_t data_bytes = 0) {
    std::vector<std::byte> head(wire::frame_header_bytes + metadata.size());
    wire::encode_frame(header, std::span{head}.first<wire::frame_header_bytes>());
    std::memcpy(head.data() + wire::frame_header_bytes, metadata.data(), metadata.size());
    send_raw(head, data_bytes);
  }

  void send_raw(std::span<const std::byte> head, std::size_t data_bytes = 0) {
    auto& op = *sent_.emplace_back(std::make_unique<sending>());
    op.head.assign(head.begin(), head.end());
    op.data.resize(data_bytes);
    op.part = {op.data.data(), op.data.size()};
    const auto parts = data_bytes > 0 ? std::span{&op.part, 1} : std::span<wire::io_part>{};
    if (worker_.post(endpoint_, op.head, parts, op) == wire::ucx_worker::outcome::pending)
      while (!op.finished && !owner_.failed)
        worker_.progress();
    for (int i = 0; i < 100; ++i)
      worker_.progress();
  }

  stranger& socket() { return socket_; }

 private:
  nobody ears_;
  owner owner_;
  // Kept until the worker is gone: a send that the victim does not read may never end.
  std::vector<std::unique_ptr<sending>> sent_;
  wire::ucx_worker worker_;
  stranger socket_;
  wire::handshake protocol_;
  ucp_ep* endpoint_ = nullptr;
};

class transport_rogue_test : public testing::Test {
 protected:
  transport_rogue_test() : server(spawn_server(victim.system)) { victim.net->publish("server", server); }

  ~transport_rogue_test() override { caf::anon_send_exit(server, caf::exit_reason::user_shutdown); }

  // An honest peer is still served.
  void expect_service() {
    node honest;
    const auto found = honest.resolve(victim.net->endpoint(), "server");
    ASSERT_TRUE(found) << honest.system.render(found.error());
    caf::scoped_actor self{honest.system};
    self->request(caf::actor_cast<server_actor>(*found), patience, batch{})
        .receive([](batch&) {}, [](caf::error&) { ADD_FAILURE(); });
  }

  node victim;
  server_actor server;
};

TEST_F(transport_rogue_test, strangers_are_shown_the_door) {
  for (const auto& bytes :
       {std::string(64, '\0'), std::string{"GET / HTTP/1.1\r\n\r\n"}, std::string(100'000, '\xff')}) {
    stranger x{victim.net->port()};
    x.send(bytes.substr(0, 64));
    EXPECT_TRUE(x.closed_by_peer());
  }
  { stranger silent{victim.net->port()}; }
  EXPECT_TRUE(victim.logged("not the rendezvous protocol"));
  expect_service();
}

TEST_F(transport_rogue_test, an_oversized_record_ends_the_connection_before_it_comes) {
  stranger x{victim.net->port()};
  auto bytes = wire::encode_record(wire::record_type::hello, {});
  bytes[11] = std::byte{0x7F};
  x.send(bytes);
  EXPECT_TRUE(x.closed_by_peer());
  EXPECT_TRUE(victim.logged("too long"));
  expect_service();
}

TEST(transport_limits_test, who_does_not_finish_the_handshake_is_closed) {
  auto options = loopback_options();
  options.handshake_deadline = 100ms;
  node victim{options};
  stranger idler{victim.net->port()};
  EXPECT_TRUE(idler.closed_by_peer());
  EXPECT_TRUE(victim.logged("no handshake within the deadline"));
}

TEST(transport_limits_test, only_so_many_strangers_wait_at_the_door) {
  auto options = loopback_options();
  options.max_unauthenticated = 4;
  node victim{options};
  std::vector<std::unique_ptr<stranger>> idlers;
  for (int i = 0; i < 12; ++i)
    idlers.push_back(std::make_unique<stranger>(victim.net->port()));
  for (std::size_t i = 4; i < idlers.size(); ++i)
    EXPECT_TRUE(idlers[i]->closed_by_peer());
  EXPECT_TRUE(victim.await_lines(8));
  for (const auto& line : victim.lines())
    EXPECT_NE(line.find("too many connections"), std::string::npos) << line;
  // One leaves, and there is room for one.
  idlers.erase(idlers.begin());
  EXPECT_TRUE(victim.await_line("closed during the handshake"));
  node honest;
  EXPECT_TRUE(is_transport_error(honest.resolve(victim.net->endpoint(), "x").error(),
                                 transport_error::no_such_service));
}

TEST_F(transport_rogue_test, nonsense_from_a_peer_ends_its_connection_with_one_line) {
  using wire::frame_kind;
  std::size_t cases = 0;
  const auto expect_dropped = [&](auto misbehave, const std::string& line) {
    rogue x{victim};
    x.shake_hands();
    misbehave(x);
    EXPECT_TRUE(x.socket().closed_by_peer());
    // The line follows the end of the connection. Several cases share a text, so lines are counted.
    ++cases;
    ASSERT_TRUE(victim.await_lines(cases)) << line;
    EXPECT_NE(victim.lines()[cases - 1].find(line), std::string::npos) << victim.lines()[cases - 1];
  };
  expect_dropped([](rogue& x) { x.send_frame(x.header(frame_kind::message, 4), "junk"); },
                 "its content makes no sense");
  expect_dropped([](rogue& x) { x.send_frame(x.header(frame_kind::down, 2), "xy"); },
                 "its content makes no sense");
  expect_dropped([](rogue& x) { x.send_frame(x.header(static_cast<frame_kind>(99), 0), ""); },
                 "unknown frame kind");
  expect_dropped([](rogue& x) { x.send_frame(x.header(frame_kind::partial_sum_request, 0), ""); },
                 "reserved and not supported");
  expect_dropped([](rogue& x) { x.send_frame(x.header(frame_kind::resolve, 1000), "name"); },
                 "metadata length does not match");
  expect_dropped(
      [](rogue& x) {
        auto header = x.header(frame_kind::resolve, 0);
        header.sequence = std::uint64_t{1} << 40;
        x.send_frame(header, "");
      },
      "sequence number out of turn");
  expect_dropped(
      [](rogue& x) {
        auto header = x.header(frame_kind::resolve, 0);
        header.acknowledged_bytes = 1;
        x.send_frame(header, "");
      },
      "acknowledges what was never sent");
  expect_dropped(
      [](rogue& x) {
        auto header = x.header(frame_kind::resolve, 500);
        header.flags = wire::metadata_in_data;
        x.send_frame(header, "", 128);
      },
      "metadata length does not match");
  expect_dropped([](rogue& x) { x.send_frame(x.header(frame_kind::acknowledge, 3), "abc"); }, "with content");
  const auto bulk = [](rogue& x, frame_kind kind, std::uint64_t rest) {
    auto header = x.header(kind, 0);
    header.flags = wire::bulk_lane;
    header.rest_bytes = rest;
    return header;
  };
  expect_dropped([&](rogue& x) { x.send_frame(bulk(x, frame_kind::piece, 0), "", 100); },
                 "a piece of no message");
  expect_dropped([&](rogue& x) { x.send_frame(bulk(x, frame_kind::piece, 0), "", (128 << 10) + 1); },
                 "the bounds of pieces");
  expect_dropped(
      [&](rogue& x) {
        for (std::uint64_t i = 1; i <= 5; ++i) {
          auto header = bulk(x, frame_kind::piece, 0);
          header.sequence = i;
          x.send_frame(header, "", 100);
        }
      },
      "the bounds of pieces");
  expect_dropped([](rogue& x) { x.send_frame(x.header(frame_kind::piece, 0), "", 100); },
                 "not a piece of a message in the bulk lane");
  expect_dropped(
      [&](rogue& x) {
        x.send_frame(bulk(x, frame_kind::message, 1000), "", 100);
        auto next = bulk(x, frame_kind::piece, 901);
        next.sequence = 1;
        x.send_frame(next, "", 100);
      },
      "a piece of no message");
  expect_dropped(
      [&](rogue& x) {
        x.send_frame(bulk(x, frame_kind::message, 1000), "", 100);
        auto next = bulk(x, frame_kind::message, 0);
        next.sequence = 1;
        x.send_frame(next, "", 100);
      },
      "before the last piece");
  expect_dropped(
      [&](rogue& x) {
        auto header = bulk(x, frame_kind::acknowledge, 0);
        header.message_id = 1;
        x.send_frame(header, "");
      },
      "acknowledges what was never sent");
  expect_dropped([](rogue& x) { x.socket().send(wire::encode_record(wire::record_type::heartbeat, {})); },
                 "malformed heartbeat");
  expect_dropped([](rogue& x) { x.socket().send(std::string(64, 'z')); }, "malformed record");
  EXPECT_EQ(victim.lines().size(), cases);
  expect_service();
}

TEST_F(transport_rogue_test, frames_of_nobody_are_counted_and_ignored) {
  rogue x{victim};
  x.shake_hands();
  auto header = x.header(wire::frame_kind::resolve, 0);
  ++header.token;
  x.send_frame(header, "");
  x.send_raw(std::as_bytes(std::span{"short"}));
  x.send_frame(header, "", 1 << 20);
  EXPECT_TRUE(eventually([this] { return victim.net->stats().stray_frames >= 3; }));
  EXPECT_EQ(victim.net->stats().stray_frames, 3U);
  expect_service();
}

TEST_F(transport_rogue_test, seeded_noise_in_headers_never_harms) {
  std::uint64_t state = 12345;
  const auto draw = [&state] { return state = state * 6364136223846793005U + 1442695040888963407U; };
  for (int round = 0; round < 20; ++round) {
    rogue x{victim};
    x.shake_hands();
    auto header = x.header(wire::frame_kind::message, 64);
    std::vector<std::byte> head(wire::frame_header_bytes + 64);
    wire::encode_frame(header, std::span{head}.first<wire::frame_header_bytes>());
    for (std::size_t i = wire::frame_header_bytes; i < head.size(); ++i)
      head[i] = static_cast<std::byte>(draw() >> 56);
    // Keeps magic, version and token, so that decoding gets far.
    head[5 + (draw() >> 33) % 3] = static_cast<std::byte>((draw() >> 56) & 15);
    x.send_raw(head, round % 2 == 0 ? 0 : 1000);
  }
  expect_service();
}

} // namespace
} // namespace troupe::test
