#include "services/process/transport_families.hpp"

namespace troupe {

void show_transport(metrics::registry& families, const transport& peers, uint64_t window_bytes) {
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
  auto& unacknowledged = families.gauge("transport_unacknowledged_bytes");
  auto& pending = families.gauge("transport_pending_requests");
  auto& round_trip = families.gauge("transport_slowest_round_trip_seconds");
  families.gauge("transport_unacknowledged_bytes_limit").Set(static_cast<double>(window_bytes));
  families.read_before_text([&, from = &peers] {
    const transport_stats now = from->stats();
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
    unacknowledged.Set(static_cast<double>(now.bytes_under_way));
    pending.Set(static_cast<double>(now.requests_pending));
    round_trip.Set(std::chrono::duration<double>(now.slowest_round_trip).count());
  });
}

} // namespace troupe
