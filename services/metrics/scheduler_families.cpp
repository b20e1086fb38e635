#include "services/metrics/scheduler_families.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

namespace troupe::metrics {

double balancedness(const placement& experts) {
  double sum = 0;
  std::size_t num_layers = 0;
  for (const layer_placement_ptr& layer : experts.layers) {
    if (layer->experts.empty())
      continue; // dense
    // A layer lives on as few workers as its messages are worth; other workers do not count.
    std::map<worker_id, double> load;
    for (const expert_hosts& expert : layer->experts) {
      if (expert.hosts.empty())
        return 0;
      for (const worker_id host : expert.hosts)
        load[host] += 1.0 / static_cast<double>(expert.hosts.size());
    }
    double most = 0;
    for (const auto& [worker, share] : load)
      most = std::max(most, share);
    sum += static_cast<double>(layer->experts.size()) / static_cast<double>(load.size()) / most;
    ++num_layers;
  }
  return num_layers == 0 ? 0 : sum / static_cast<double>(num_layers);
}

scheduler_families::scheduler_families(std::shared_ptr<registry> families, event_log log,
                                       request_events requests)
    : families_(std::move(families)),
      log_(std::move(log)),
      requests_(std::move(requests)),
      waiting_(families_->gauge("num_requests_waiting")),
      placed_(families_->gauge("num_requests_placed")),
      queued_bytes_(families_->gauge("queued_bytes")),
      queued_bytes_limit_(families_->gauge("queued_bytes_limit")),
      kv_reserved_(families_->gauge("kv_cache_reserved_tokens")),
      kv_used_(families_->gauge("kv_cache_used_tokens")),
      kv_total_(families_->gauge("kv_cache_total_tokens")),
      expected_answer_(families_->gauge("expected_answer_tokens")),
      epoch_(families_->gauge("placement_epoch")),
      term_(families_->gauge("placement_term")),
      ready_(families_->gauge("cluster_ready")),
      balancedness_(families_->gauge("placement_balancedness")),
      experts_placed_(families_->gauge("experts_placed")),
      experts_without_host_(families_->gauge("experts_without_host")),
      experts_without_room_(families_->gauge("experts_without_room")),
      expert_copies_(families_->gauge("expert_copies")),
      queue_seconds_(families_->histogram("request_queue_time_seconds")) {
  families_->start("scheduler");
  on_workers({});
}

void scheduler_families::on_bounds(std::uint64_t max_queued_bytes, std::size_t max_queued) {
  queued_bytes_limit_.Set(static_cast<double>(max_queued_bytes));
  if (max_queued > 0)
    families_->gauge("num_requests_waiting_limit").Set(static_cast<double>(max_queued));
}

void scheduler_families::on_requests(std::size_t num_queued, std::uint64_t queued_bytes,
                                     std::size_t num_placed) {
  waiting_.Set(static_cast<double>(num_queued));
  queued_bytes_.Set(static_cast<double>(queued_bytes));
  placed_.Set(static_cast<double>(num_placed));
}

void scheduler_families::on_memory(const memory& now) {
  kv_reserved_.Set(static_cast<double>(now.reserved));
  kv_used_.Set(static_cast<double>(now.used));
  kv_total_.Set(static_cast<double>(now.capacity));
  expected_answer_.Set(now.likely_new_tokens);
}

void scheduler_families::on_workers(const worker_counts& now) {
  const auto set = [this](worker_role role, std::size_t count) {
    families_->gauge("cluster_workers", {{"member", to_string(role)}}).Set(static_cast<double>(count));
  };
  set(worker_role::gateway, now.gateways);
  set(worker_role::attention, now.attention);
  set(worker_role::expert, now.experts);
}

void scheduler_families::on_admitted(std::chrono::nanoseconds waited) {
  queue_seconds_.Observe(std::chrono::duration<double>(waited).count());
}

void scheduler_families::on_refused(ec code) {
  families_->counter("scheduler_refusals_total", {{"reason", to_string(code)}}).Increment();
}

void scheduler_families::on_published(const placement& experts, bool ready) {
  term_.Set(static_cast<double>(experts.term));
  epoch_.Set(static_cast<double>(experts.epoch));
  ready_.Set(ready ? 1 : 0);
  balancedness_.Set(balancedness(experts));
  std::size_t hosted = 0;
  std::size_t orphaned = 0;
  std::size_t copies = 0;
  for (const layer_placement_ptr& layer : experts.layers)
    for (const expert_hosts& expert : layer->experts) {
      ++(expert.hosts.empty() ? orphaned : hosted);
      copies += expert.hosts.size();
    }
  experts_placed_.Set(static_cast<double>(hosted));
  experts_without_host_.Set(static_cast<double>(orphaned));
  expert_copies_.Set(static_cast<double>(copies));
}

void scheduler_families::on_room(std::size_t num_without) {
  experts_without_room_.Set(static_cast<double>(num_without));
}

void scheduler_families::on_fenced(fence_reason reason) {
  families_->counter("fenced_workers_total", {{"reason", to_string(reason)}}).Increment();
}

void scheduler_families::on_event(const char* name, const std::string& text) {
  if (log_)
    log_(name, text);
}

void scheduler_families::on_request(const request_event& step) {
  if (requests_)
    requests_(step);
}

} // namespace troupe::metrics
