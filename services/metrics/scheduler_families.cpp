#include "services/metrics/scheduler_families.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "services/metrics/bucket_edges.hpp"

namespace troupe::metrics {

double balancedness(const placement& experts) {
  double sum = 0;
  size_t num_layers = 0;
  for (const layer_placement_ptr& layer : experts.layers) {
    if (layer->experts.empty())
      continue; // dense
    // A layer lives on as few workers as its messages are worth; the others have no part in it.
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
      waiting_(families_->gauge("num_requests_waiting", "Requests that wait for a place")),
      placed_(families_->gauge("num_requests_placed", "Requests that have a place on an attention worker")),
      epoch_(families_->gauge("placement_epoch", "Publications of the placement within the term")),
      term_(families_->gauge("placement_term", "The scheduler's term; a restarted one takes a higher")),
      ready_(families_->gauge("cluster_ready",
                              "1 when every expert has a host and there is an attention worker")),
      balancedness_(families_->gauge("placement_balancedness",
                                     "Mean over maximal share of the experts, averaged over the layers")),
      queue_seconds_(families_->histogram("request_queue_time_seconds",
                                          "From a request's arrival at the scheduler to its place",
                                          request_seconds)) {}

void scheduler_families::on_requests(size_t num_queued, size_t num_placed) {
  waiting_.Set(static_cast<double>(num_queued));
  placed_.Set(static_cast<double>(num_placed));
}

void scheduler_families::on_admitted(std::chrono::nanoseconds waited) {
  queue_seconds_.Observe(std::chrono::duration<double>(waited).count());
}

void scheduler_families::on_refused(ec code) {
  families_
      ->counter("scheduler_refusals_total", "Requests refused by the scheduler, by reason",
                {{"reason", to_string(code)}})
      .Increment();
}

void scheduler_families::on_published(const placement& experts, bool ready) {
  term_.Set(static_cast<double>(experts.term));
  epoch_.Set(static_cast<double>(experts.epoch));
  ready_.Set(ready ? 1 : 0);
  balancedness_.Set(balancedness(experts));
}

void scheduler_families::on_fenced(fence_reason reason) {
  families_
      ->counter("fenced_workers_total",
                "Workers that were declared dead though their connection stood, by reason",
                {{"reason", to_string(reason)}})
      .Increment();
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
