#include "actors/transport/caf/transport.hpp"

#include <map>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/message.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include "actors/transport/caf/node_module.hpp"
#include "actors/transport/caf/transport_core.hpp"

namespace troupe {

namespace {

constexpr auto error_category = caf::atom("transport");

const char* describe(transport_error code) {
  switch (code) {
  case transport_error::window_full:
    return "the peer's window is full";
  case transport_error::message_too_large:
    return "the message is too large";
  case transport_error::cannot_connect:
    return "cannot connect";
  case transport_error::no_such_service:
    return "no such service";
  case transport_error::unknown_kind:
    return "the peer is of another version and does not know this kind of message";
  }
  return "unknown transport error";
}

std::string render(std::uint8_t code, caf::atom_value, const caf::message& context) {
  std::string result = describe(static_cast<transport_error>(code));
  if (!context.empty())
    result += ": " + caf::to_string(context);
  return result;
}

// The transport actor with the answers that come back from the progress thread.
using resolver_actor = transport_actor::extend<
    // A resolve has found its actor.
    caf::reacts_to<caf::ok_atom, std::uint64_t, caf::strong_actor_ptr>,
    // A resolve has failed.
    caf::reacts_to<caf::ok_atom, std::uint64_t, caf::error>>;

struct resolver_state {
  static inline const char* name = "transport-resolver";
  std::uint64_t next = 1;
  std::map<std::uint64_t, caf::typed_response_promise<caf::strong_actor_ptr>> waiting;
};

resolver_actor::behavior_type resolver(resolver_actor::stateful_pointer<resolver_state> self,
                                       const std::shared_ptr<transport::core>& network) {
  const auto ask = [self, network](std::string& endpoint, std::string& name, caf::timespan deadline) {
    auto& state = self->state;
    const auto id = state.next++;
    auto promise = self->make_response_promise<caf::strong_actor_ptr>();
    state.waiting.emplace(id, promise);
    const auto until = network->network().now() + std::chrono::duration_cast<wire::clock::duration>(deadline);
    network->resolve(
        std::move(endpoint), std::move(name), until,
        [me = caf::actor_cast<resolver_actor>(self), id](caf::expected<caf::strong_actor_ptr> found) {
          if (found)
            caf::anon_send(me, caf::ok_atom_v, id, std::move(*found));
          else
            caf::anon_send(me, caf::ok_atom_v, id, std::move(found.error()));
        });
    return promise;
  };
  return {
      [ask, network](caf::resolve_atom, std::string& endpoint, std::string& name) {
        return ask(endpoint, name, network->options().resolve_deadline);
      },
      [ask](caf::resolve_atom, std::string& endpoint, std::string& name, caf::timespan deadline) {
        return ask(endpoint, name, deadline);
      },
      [self](caf::ok_atom, std::uint64_t id, caf::strong_actor_ptr& found) {
        if (auto node = self->state.waiting.extract(id))
          node.mapped().deliver(std::move(found));
      },
      [self](caf::ok_atom, std::uint64_t id, caf::error& reason) {
        if (auto node = self->state.waiting.extract(id))
          node.mapped().deliver(std::move(reason));
      },
  };
}

} // namespace

caf::error make_error(transport_error code, const std::string& context) {
  const auto number = static_cast<std::uint8_t>(code);
  return context.empty() ? caf::error{number, error_category}
                         : caf::error{number, error_category, caf::make_message(context)};
}

bool is_transport_error(const caf::error& err, transport_error code) {
  // CAF's accessors dereference null when there is no error.
  return err && err.category() == error_category && err.code() == static_cast<std::uint8_t>(code);
}

void configure_transport(caf::actor_system_config& cfg) {
  cfg.load<caf::net::middleman>();
  cfg.add_message_types<caf::id_block::troupe_transport>();
  cfg.add_error_category(error_category, render);
}

transport::transport(caf::actor_system& sys, transport_options options)
    : core_(std::make_shared<core>(sys, std::move(options))) {
  core_->start();
  actor_ = sys.spawn<caf::hidden>(resolver, core_);
}

transport::~transport() {
  caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
  core_->stop();
}

void transport::publish(const std::string& name, const caf::strong_actor_ptr& whom) {
  core_->publish(name, whom);
}

void transport::unpublish(const std::string& name) {
  core_->unpublish(name);
}

const std::string& transport::endpoint() const {
  return core_->network().endpoint();
}

std::uint16_t transport::port() const {
  return core_->network().port();
}

const transport_actor& transport::actor() const {
  return actor_;
}

transport_stats transport::stats() const {
  const auto totals = core_->network().counters();
  transport_stats result;
  result.frames_sent = totals.frames_sent;
  result.frames_received = totals.frames_received;
  result.bytes_sent = totals.bytes_sent;
  result.bytes_received = totals.bytes_received;
  result.frames_refused = totals.frames_refused;
  result.stray_frames = totals.stray_frames;
  result.fetched_frames = totals.fetched_frames;
  result.wake_ups = totals.wake_ups;
  result.peers_lost = totals.peers_lost;
  auto level = core_->network().level();
  for (const auto bytes : level.bytes_under_way)
    result.bytes_under_way += bytes;
  result.bulk_bytes_under_way = level.bytes_under_way[static_cast<std::size_t>(wire::lane::bulk)];
  result.peers = level.peers;
  result.round_trips_by_role = std::move(level.round_trips_by_role);
  result.messages_withheld = core_->messages_withheld();
  result.messages_unknown = core_->messages_unknown();
  result.requests_pending = core_->requests_pending();
  return result;
}

} // namespace troupe
