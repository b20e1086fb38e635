#include "services/cluster/transport_families.hpp"

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include <prometheus/gauge.h>

namespace troupe {

namespace {

/// How far away the peers of one role are.
struct distance_gauges {
  prometheus::Gauge& slowest;
  prometheus::Gauge& mean;
};

/// By the label `peer`. A peer that calls itself otherwise, or nothing, is one of the others.
std::map<std::string, distance_gauges> distances_in(metrics::registry& families) {
  std::map<std::string, distance_gauges> result;
  for (const char* role : {"gateway", "scheduler", "attention", "expert", "other"})
    result.emplace(role,
                   distance_gauges{families.gauge("transport_slowest_round_trip_seconds", {{"peer", role}}),
                                   families.gauge("transport_mean_round_trip_seconds", {{"peer", role}})});
  return result;
}

void show(std::map<std::string, distance_gauges>& distances,
          const std::map<std::string, wire::round_trips>& by_role) {
  std::map<std::string, wire::round_trips> known;
  for (const auto& [role, trips] : by_role)
    known[distances.contains(role) ? role : "other"].add(trips);
  for (auto& [role, gauges] : distances) {
    const auto& trips = known[role];
    gauges.slowest.Set(std::chrono::duration<double>(trips.slowest).count());
    gauges.mean.Set(trips.mean().count());
  }
}

} // namespace

void show_transport(metrics::registry& families, std::shared_ptr<const shown_peers> peers,
                    std::uint64_t window_bytes) {
  auto& bytes_sent = families.counter("transport_bytes_sent_total");
  auto& bytes_received = families.counter("transport_bytes_received_total");
  auto& sent = families.counter("transport_messages_sent_total");
  auto& received = families.counter("transport_messages_received_total");
  auto& refused = families.counter("transport_messages_refused_total");
  auto& stray = families.counter("transport_stray_messages_total");
  auto& lost = families.counter("transport_peers_lost_total");
  auto& withheld = families.counter("transport_messages_withheld_total");
  auto& unknown = families.counter("transport_messages_unknown_total");
  auto& wake_ups = families.counter("transport_wake_ups_total");
  auto& connected = families.gauge("transport_peers");
  auto& urgent = families.gauge("transport_unacknowledged_bytes", {{"lane", "urgent"}});
  auto& bulk = families.gauge("transport_unacknowledged_bytes", {{"lane", "bulk"}});
  auto& pending = families.gauge("transport_pending_requests");
  families.gauge("transport_unacknowledged_bytes_limit").Set(static_cast<double>(window_bytes));
  families.read_before_text([&, from = std::move(peers), distances = distances_in(families)]() mutable {
    const auto looked = from->stats();
    if (!looked)
      return;
    const transport_stats& now = *looked;
    metrics::raise_to(bytes_sent, static_cast<double>(now.bytes_sent));
    metrics::raise_to(bytes_received, static_cast<double>(now.bytes_received));
    metrics::raise_to(sent, static_cast<double>(now.frames_sent));
    metrics::raise_to(received, static_cast<double>(now.frames_received));
    metrics::raise_to(refused, static_cast<double>(now.frames_refused));
    metrics::raise_to(stray, static_cast<double>(now.stray_frames));
    metrics::raise_to(lost, static_cast<double>(now.peers_lost));
    metrics::raise_to(withheld, static_cast<double>(now.messages_withheld));
    metrics::raise_to(unknown, static_cast<double>(now.messages_unknown));
    metrics::raise_to(wake_ups, static_cast<double>(now.wake_ups));
    connected.Set(static_cast<double>(now.peers));
    urgent.Set(static_cast<double>(now.bytes_under_way - now.bulk_bytes_under_way));
    bulk.Set(static_cast<double>(now.bulk_bytes_under_way));
    pending.Set(static_cast<double>(now.requests_pending));
    show(distances, now.round_trips_by_role);
  });
}

} // namespace troupe
