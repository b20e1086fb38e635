// What placement costs the scheduler of a large cluster, and what its placements cost the cluster.
//
//   placement_scale
//
// First table: 1,000 hosts, 60 layers of 256 experts, 64 attention workers; the time that one event takes of
// the target and the rollout. Second table: routing that is played through placements of 16, 100 and 1,000
// hosts, against experts spread evenly over all hosts. The program fails when the median time of an event is
// beyond its limit, and when a restart moves experts.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actors/scheduler/placement_rollout.hpp"
#include "actors/scheduler/placement_target.hpp"

namespace {

using namespace troupe;

constexpr std::uint32_t num_layers = 60;
constexpr std::uint32_t num_experts = 256;
constexpr std::uint32_t top_k = 8;

// ---------------------------------------------------------------------------------------------------------------
// The scheduler's time

class stopwatch {
 public:
  double ms() const { return std::chrono::duration<double, std::milli>(clock::now() - start_).count(); }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point start_ = clock::now();
};

/// Times of one kind of event.
class event_times {
 public:
  event_times(std::string name, double limit_ms) : name_(std::move(name)), limit_ms_(limit_ms) {}

  void measure(const std::function<void()>& event) {
    stopwatch watch;
    event();
    times_ms_.push_back(watch.ms());
  }

  bool print() {
    std::sort(times_ms_.begin(), times_ms_.end());
    const auto median = times_ms_[times_ms_.size() / 2];
    const auto is_within = median <= limit_ms_;
    std::printf("| %-58s | %5zu | %8.3f | %8.3f | %6.0f | %s |\n", name_.c_str(), times_ms_.size(), median,
                times_ms_.back(), limit_ms_, is_within ? "yes" : "NO");
    return is_within;
  }

 private:
  std::string name_;
  double limit_ms_;
  std::vector<double> times_ms_;
};

/// A cluster that obeys at once.
class cluster {
 public:
  explicit cluster(std::uint64_t num_hosts, std::uint64_t num_routers, std::uint64_t max_experts = UINT64_MAX)
      : max_experts_(max_experts), target_({1, {}}) {
    target_.set_layers(std::vector<std::uint32_t>(num_layers, num_experts));
    rollout_.set_layers(std::vector<std::uint32_t>(num_layers, num_experts));
    for (std::uint64_t id = 1; id <= num_hosts; ++id)
      add_host({id});
    for (std::uint64_t id = 1; id <= num_routers; ++id) {
      routers_.push_back({1'000'000 + id});
      rollout_.add_router(routers_.back());
    }
  }

  void add_host(worker_id id) {
    target_.add_host(id, max_experts_);
    rollout_.add_host(id, max_experts_, {});
    hosts_.push_back(id);
  }

  void remove_host(worker_id id) {
    target_.remove_host(id);
    rollout_.remove_host(id);
    std::erase(hosts_, id);
    orders_.erase(id);
  }

  void repair() {
    rollout_.retarget(target_.repair([this](expert_id x) { return rollout_.hosts_with(x); }));
  }

  void publish() {
    if (rollout_.wants_route())
      rollout_.route(1, ++epoch_);
  }

  void look_for_orders() {
    const auto with_orders = rollout_.hosts_with_orders();
    for (auto id : with_orders)
      if (!orders_.contains(id))
        if (auto order = rollout_.next_order(id))
          orders_[id] = std::move(*order);
  }

  /// The scheduler's reaction to any message; true if there was anything to do.
  bool look() {
    const auto has_work =
        target_.wants_repair() || rollout_.wants_route() || !rollout_.hosts_with_orders().empty();
    if (target_.wants_repair())
      repair();
    publish();
    look_for_orders();
    return has_work || (rollout_.is_stuck() && !rollout_.awaits_confirmation());
  }

  bool report_next() {
    if (orders_.empty())
      return false;
    const auto [id, experts] = *orders_.begin();
    orders_.erase(orders_.begin());
    rollout_.reported(id, experts);
    return true;
  }

  void confirm(std::size_t router) {
    if (rollout_.confirmed(routers_[router], epoch_))
      look_for_orders();
  }

  void settle() {
    do {
      look();
      while (report_next())
        look();
      for (std::size_t router = 0; router < routers_.size(); ++router)
        confirm(router);
    } while (!orders_.empty() || rollout_.wants_route());
  }

  /// A scheduler without memory, and hosts that report what they have.
  cluster restarted() const {
    cluster result{0, 0};
    for (auto id : hosts_) {
      result.target_.add_host(id, max_experts_);
      result.rollout_.add_host(id, max_experts_, rollout_.hosted(id));
      result.hosts_.push_back(id);
    }
    return result;
  }

  bool has_orders() const { return !orders_.empty(); }

  bool is_complete() const { return rollout_.is_complete(); }

  std::size_t num_routers() const { return routers_.size(); }

  const std::vector<worker_id>& hosts() const { return hosts_; }

  const placement_target& target() const { return target_; }

 private:
  std::uint64_t max_experts_;
  placement_target target_;
  placement_rollout rollout_;
  std::vector<worker_id> hosts_;
  std::vector<worker_id> routers_;
  std::map<worker_id, std::vector<expert_id>> orders_;
  std::uint64_t epoch_ = 0;
};

bool print_times() {
  constexpr int num_rounds = 41;
  event_times first{"first placement: target", 1000};
  event_times first_orders{"first placement: first routing and 1,000 orders", 1000};
  event_times restart{"1,000 hosts come back after a restart with what they have", 1000};
  event_times joins{"a join: target, routing, orders", 10};
  event_times deaths{"a death: target, routing, orders", 10};
  event_times reports{"a report: routing, orders", 10};
  event_times confirmations{"a confirmation", 10};
  event_times last_confirmations{"the last of 64 confirmations: orders to release", 10};
  event_times idle{"an idle look", 10};
  event_times first_short{"first placement on 500 hosts with half of the memory needed", 1000};
  event_times joins_short{"a join while memory is short: target, routing, orders", 10};
  cluster workers{1000, 64};
  first.measure([&] { workers.repair(); });
  first_orders.measure([&] { workers.look(); });
  workers.settle();
  if (!workers.is_complete()) {
    std::fprintf(stderr, "placement_scale: not every expert has a host\n");
    return false;
  }
  bool is_restart_calm = true;
  restart.measure([&] {
    auto again = workers.restarted();
    again.look();
    is_restart_calm = !again.has_orders() && again.is_complete();
  });
  if (!is_restart_calm)
    std::fprintf(stderr, "placement_scale: a restart moves experts\n");
  cluster few{500, 64, 16};
  first_short.measure([&] { few.repair(); });
  few.settle();
  std::mt19937 random{1};
  for (std::uint64_t round = 0; round < num_rounds; ++round) {
    joins.measure([&] {
      workers.add_host({10'000 + round});
      workers.look();
    });
    reports.measure([&] {
      workers.report_next();
      workers.look();
    });
    for (std::size_t router = 0; router + 1 < workers.num_routers(); ++router)
      confirmations.measure([&] { workers.confirm(router); });
    last_confirmations.measure([&] { workers.confirm(workers.num_routers() - 1); });
    workers.settle();
    deaths.measure([&] {
      workers.remove_host(workers.hosts()[random() % workers.hosts().size()]);
      workers.look();
    });
    workers.settle();
    idle.measure([&] { workers.look(); });
    joins_short.measure([&] {
      few.add_host({10'000 + round});
      few.look();
    });
    few.settle();
  }
  std::printf("1,000 hosts, %u x %u experts, 64 attention workers; ms of one core\n\n", num_layers,
              num_experts);
  std::printf("| event | times | median | most | limit | within |\n|---|---|---|---|---|---|\n");
  bool is_within = is_restart_calm;
  for (auto* events : {&first, &first_orders, &restart, &joins, &deaths, &reports, &confirmations,
                       &last_confirmations, &idle, &first_short, &joins_short})
    is_within = events->print() && is_within;
  return is_within;
}

// ---------------------------------------------------------------------------------------------------------------
// The cluster's time

enum class routing_kind { uniform, zipf, topics };

/// The experts that tokens choose in one layer: the top-k of weights with noise, without replacement.
class router {
 public:
  static constexpr std::uint32_t num_topics = 16;

  router(routing_kind kind, std::uint32_t seed) : kind_(kind), rank_(num_experts), random_(seed) {
    std::iota(rank_.begin(), rank_.end(), 0);
    std::shuffle(rank_.begin(), rank_.end(), random_);
  }

  std::vector<std::uint32_t> next_token() {
    const auto topic = random_() % num_topics;
    std::exponential_distribution<double> arrival;
    // The k first arrivals of Poisson processes: a choice without replacement by weight.
    std::array<std::pair<double, std::uint32_t>, num_experts> arrivals;
    for (std::uint32_t expert = 0; expert < num_experts; ++expert)
      arrivals[expert] = {arrival(random_) / weight(expert, topic), expert};
    std::partial_sort(arrivals.begin(), arrivals.begin() + top_k, arrivals.end());
    std::vector<std::uint32_t> chosen;
    for (std::uint32_t choice = 0; choice < top_k; ++choice)
      chosen.push_back(arrivals[choice].second);
    return chosen;
  }

 private:
  double weight(std::uint32_t expert, std::uint64_t topic) const {
    switch (kind_) {
    case routing_kind::uniform:
      return 1;
    case routing_kind::zipf:
      return 1.0 / (1 + rank_[expert]);
    default:
      return rank_[expert] % num_topics == topic ? 100 : 1;
    }
  }

  routing_kind kind_;
  std::vector<std::uint32_t> rank_;
  std::mt19937 random_;
};

using hosts_by_expert = std::function<worker_id(expert_id)>;

void print_placement(const char* routing_name, routing_kind kind, std::uint32_t num_rows,
                     std::uint32_t num_hosts, const char* name, const hosts_by_expert& host_of) {
  constexpr std::uint32_t num_steps = 8;
  double messages = 0;
  double most_active = 0;
  double most_rows = 0;
  double members = 0;
  for (std::uint32_t layer = 0; layer < num_layers; ++layer) {
    std::set<worker_id> hosts;
    for (std::uint32_t index = 0; index < num_experts; ++index)
      hosts.insert(host_of({layer, index}));
    members += static_cast<double>(hosts.size()) / num_layers;
    router tokens{kind, layer};
    for (std::uint32_t step = 0; step < num_steps; ++step) {
      std::map<worker_id, std::pair<std::set<std::uint32_t>, std::uint32_t>>
          load; // active experts, rows of experts
      for (std::uint32_t row = 0; row < num_rows; ++row)
        for (auto expert : tokens.next_token()) {
          auto& [active, rows] = load[host_of({layer, expert})];
          active.insert(expert);
          ++rows;
        }
      std::size_t max_active = 0;
      std::uint32_t max_rows = 0;
      for (const auto& [id, at] : load) {
        max_active = std::max(max_active, at.first.size());
        max_rows = std::max(max_rows, at.second);
      }
      messages += static_cast<double>(load.size()) / num_steps;
      most_active += static_cast<double>(max_active) / num_steps / num_layers;
      most_rows += static_cast<double>(max_rows) / num_steps / num_layers;
    }
  }
  const placement_costs costs;
  const auto ms = (messages / num_layers * costs.message_ns + most_active * costs.expert_ns) / 1e6;
  std::printf("| %u | %s | %u | %s | %.1f | %.0f | %.1f | %.1f | %.2f |\n", num_hosts, routing_name, num_rows,
              name, members, messages, most_active, most_rows, ms);
}

void print_placements() {
  std::printf("\n%u x %u experts, top-%u; means over layers and 8 steps; ms a layer as the costs of "
              "placement have it\n\n",
              num_layers, num_experts, top_k);
  std::printf("| hosts | routing | rows | placement | hosts a layer | messages a step | most active experts "
              "of a host | "
              "most rows of a host | ms a layer |\n|---|---|---|---|---|---|---|---|---|\n");
  for (std::uint32_t num_hosts : {16U, 100U, 1000U}) {
    const auto even = [num_hosts](expert_id x) {
      return worker_id{1 + (std::uint64_t{x.layer} * num_experts + x.index) % num_hosts};
    };
    cluster workers{num_hosts, 0};
    workers.settle();
    const auto& target = workers.target();
    const auto placed = [&target](expert_id x) { return target.hosts(x).front(); };
    for (const auto& [name, kind] :
         {std::pair{"uniform", routing_kind::uniform}, {"Zipf", routing_kind::zipf}}) {
      print_placement(name, kind, 64, num_hosts, "even over all", even);
      print_placement(name, kind, 64, num_hosts, "target", placed);
    }
    for (std::uint32_t num_rows : {4U, 64U}) {
      print_placement("topics", routing_kind::topics, num_rows, num_hosts, "even over all", even);
      print_placement("topics", routing_kind::topics, num_rows, num_hosts, "target", placed);
    }
  }
}

} // namespace

int main() {
  const auto is_within = print_times();
  print_placements();
  return is_within ? 0 : 1;
}
