// The CAF half of the transport: turns actor messages into frames and back, and keeps the books on both.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/error.hpp>
#include <caf/expected.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/node_id.hpp>
#include <caf/proxy_registry.hpp>

#include "actors/transport/caf/peer_kinds.hpp"
#include "actors/transport/caf/pending_requests.hpp"
#include "actors/transport/caf/transport.hpp"
#include "actors/transport/caf/woken_actors.hpp"
#include "actors/transport/fabric/fabric.hpp"

namespace troupe {

class transport::core : public wire::fabric::listener,
                        public caf::proxy_registry::backend,
                        public std::enable_shared_from_this<transport::core> {
 public:
  using on_resolved = std::function<void(caf::expected<caf::strong_actor_ptr>)>;

  core(caf::actor_system& sys, transport_options options);

  /// Starts the fabric; apart from the constructor because callbacks need `shared_from_this`.
  void start();

  /// Ends every connection; proxies that live on answer with errors.
  void stop();

  void publish(const std::string& name, const caf::strong_actor_ptr& whom);
  void unpublish(const std::string& name);

  /// Calls `done`, on any thread, by `deadline` at the latest.
  void resolve(std::string endpoint, std::string name, wire::clock::time_point deadline, on_resolved done);

  const transport_options& options() const { return options_; }

  const wire::fabric& network() const { return *fabric_; }

  std::size_t requests_pending() const { return pending_.size(); }

  std::uint64_t messages_withheld() const { return withheld_.load(std::memory_order_relaxed); }

  std::uint64_t messages_unknown() const { return unknown_.load(std::memory_order_relaxed); }

  // -- for proxies --------------------------------------------------------------

  /// Ships a message to the actor `destination` of `peer`; answers requests that cannot be shipped.
  void ship(const wire::peer_connection_ptr& peer, caf::mailbox_element& what, caf::actor_id destination);

  /// Ships an exit message to the actor behind `proxy` and unlinks the proxy from its source. Works on the
  /// progress thread, for callers that hold actors' locks.
  void ship_exit(const wire::peer_connection_ptr& peer, caf::strong_actor_ptr proxy,
                 caf::mailbox_element_ptr what);

  /// Tells `peer` that `local` has linked itself to, or unlinked itself from, its actor `remote`.
  void tell_link(const wire::peer_connection_ptr& peer, wire::frame_kind kind,
                 const caf::strong_actor_ptr& local, caf::actor_id remote);

  // -- for messages that have arrived -------------------------------------------

  /// Its receiver has handled what cost its sender `due`.
  void handled(const wire::peer_connection_ptr& peer, wire::credit due) { fabric_->handled(peer, due); }

  // -- caf::proxy_registry::backend ---------------------------------------------

  caf::strong_actor_ptr make_proxy(caf::node_id node, caf::actor_id id) override;

  void set_last_hop(caf::node_id*) override {}

  // -- wire::fabric::listener ---------------------------------------------------

  void peer_up(const wire::peer_connection_ptr& peer) override;
  bool frame_arrived(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                     std::span<const std::byte> metadata, payload data, wire::credit due) override;
  void peer_down(const wire::peer_connection_ptr& peer, const std::string& reason) override;
  void tick(wire::clock::time_point now) override;

  job next_job() override { return woken_.next(); }

  void hand_over_jobs() override { woken_.hand_over(); }

 private:
  struct waiting_resolve {
    wire::peer_connection_ptr peer;
    std::string name;
    wire::clock::time_point deadline;
    on_resolved done;
  };

  bool on_message(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                  std::span<const std::byte> metadata, payload data, wire::credit due);
  /// A message of kinds that this version does not know: its sender gets an error if it waits for an answer.
  void on_unknown_kind(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                       const std::string& kinds, const caf::strong_actor_ptr& sender);
  /// Logs what a peer of another version cannot read, and remembers it.
  void compare_versions(const wire::peer_connection_ptr& peer);
  bool on_control(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                  std::span<const std::byte> metadata);
  void on_resolve(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                  const std::string& name);
  void on_resolved_frame(const wire::peer_connection_ptr& peer, const wire::frame_header& header);
  void on_monitor(const wire::peer_connection_ptr& peer, caf::actor_id id);
  bool on_down(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
               std::span<const std::byte> metadata);
  void on_link(const wire::peer_connection_ptr& peer, const wire::frame_header& header);

  void ask_peer(const wire::peer_connection_ptr& peer, std::string name, wire::clock::time_point deadline,
                on_resolved done);
  /// Ends the waiting resolves that `which` picks out.
  void fail_resolves(const std::function<bool(const waiting_resolve&)>& which, const std::string& why);
  /// `peer` will be told when `local` ends.
  void watch(const wire::peer_connection_ptr& peer, const caf::strong_actor_ptr& local);
  void local_actor_ended(caf::actor_id id, const caf::error& reason);
  void send_down(const wire::peer_connection_ptr& peer, caf::actor_id id, const caf::error& reason);
  caf::expected<caf::strong_actor_ptr> find_published(const std::string& name) const;
  caf::strong_actor_ptr proxy_for(const caf::node_id& node, caf::actor_id id);
  caf::node_id node_of(const wire::peer_connection_ptr& peer) const;
  void export_actor(const caf::strong_actor_ptr& local);

  caf::actor_system& system_;
  transport_options options_;
  std::function<void(const char* event, const std::string& text)> log_;
  caf::proxy_registry proxies_;
  pending_requests pending_;
  peer_kinds kinds_;
  std::atomic<std::uint64_t> withheld_{0};
  std::atomic<std::uint64_t> unknown_{0};
  std::unique_ptr<wire::fabric> fabric_;

  // Peers by node, and nodes by token.
  mutable std::mutex nodes_mutex_;
  std::unordered_map<caf::node_id, wire::peer_connection_ptr> by_node_;
  std::unordered_map<std::uint64_t, caf::node_id> nodes_;

  mutable std::mutex published_mutex_;
  std::map<std::string, caf::strong_actor_ptr> published_;

  // Peers to tell of the end of actors of this process. One functor per actor, however often peers come and
  // go.
  std::mutex watchers_mutex_;
  std::unordered_map<caf::actor_id, std::vector<wire::peer_connection_ptr>> watchers_;

  // Progress thread only.
  woken_actors woken_;
  unknown_kinds unknown_kinds_;
  std::map<std::uint64_t, waiting_resolve> resolves_;
  std::uint64_t next_resolve_ = 1;
  wire::clock::time_point next_sweep_;
};

} // namespace troupe
