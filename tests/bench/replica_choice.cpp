// Which replica to ask: the dispatcher's rule against others, in a model of hosts and attention workers.
//
//   replica_choice
//
// Eight hosts with 64 experts in two or four copies, four attention workers with one micro-batch of 64 rows
// (top-8) each, which goes from layer to layer without a pause. A host computes batches in the order of
// arrival; an expert costs it 20 us and a row 1 us. A message travels for 100 us. Printed for each rule:
// layers per second of all workers, and the time of a layer (mean, 99th percentile), each over 2 s of virtual
// time.
//
// modulo   the copy (row of dispatches + expert) mod copies       random   any copy
// own      of two copies the one with fewer of the sender's own rows
// news     the same with what hosts say of their queues: the dispatcher's rule
// all      of all copies the one with the fewest rows by the same knowledge: join the shortest queue
// oracle   of all copies the one with the fewest rows in truth

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "actors/attention/dispatch_policy.hpp"

namespace {

using namespace troupe;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using time_point = queue_news::time_point;

constexpr std::uint32_t num_hosts = 8;
constexpr std::uint32_t num_experts = 64;
constexpr std::uint32_t num_workers = 4;
constexpr std::uint32_t num_rows = 64;
constexpr std::uint32_t top_k = 8;
constexpr auto way = microseconds{100};
constexpr auto expert_time = microseconds{20};
constexpr auto row_time = microseconds{1};
constexpr auto span = std::chrono::seconds{2};

enum class rule { modulo, random, own, news, all, oracle };
constexpr std::array<const char*, 6> rule_names{"modulo", "random", "own", "news", "all", "oracle"};

struct scenario {
  const char* name;
  std::uint32_t copies;
  double skew;                          ///< Zipf exponent of the experts
  std::array<double, num_hosts> slower; ///< factor of a host's times
  double stall = 0;                     ///< part of the time that host 0 does nothing, in periods of 50 ms
};

/// One run of one rule.
class model {
 public:
  model(const scenario& about, rule by) : about_(about), rule_(by), random_(7) {
    for (std::uint32_t expert = 0; expert < num_experts; ++expert) {
      popularity_.push_back(1 / std::pow(expert + 1, about.skew));
      auto& entry = placement_.experts.emplace_back();
      for (std::uint32_t copy = 0; copy < about.copies; ++copy)
        entry.hosts.push_back(id_of((expert * 5 + copy * (1 + expert / num_hosts % 3)) % num_hosts));
      std::sort(entry.hosts.begin(), entry.hosts.end());
      entry.hosts.erase(std::unique(entry.hosts.begin(), entry.hosts.end()), entry.hosts.end());
    }
    std::shuffle(popularity_.begin(), popularity_.end(), random_);
  }

  void run() {
    for (std::uint32_t worker = 0; worker < num_workers; ++worker)
      at(start_ + microseconds{37 * worker}, [this, worker] { begin_layer(worker); });
    while (!events_.empty() && events_.top().when < start_ + span) {
      const auto next = events_.top();
      events_.pop();
      now_ = next.when;
      actions_.extract(next.action).mapped()();
    }
  }

  void print() {
    std::sort(layers_.begin(), layers_.end());
    double sum = 0;
    for (const auto took : layers_)
      sum += static_cast<double>(took.count());
    const auto count = layers_.size();
    std::printf("  %-7s %8.0f layers/s   %7.0f us mean   %7.0f us p99\n",
                rule_names.at(static_cast<std::size_t>(rule_)), static_cast<double>(count) / 2,
                sum / static_cast<double>(count) / 1e3,
                static_cast<double>(layers_[count * 99 / 100].count()) / 1e3);
  }

 private:
  struct event {
    time_point when;
    std::uint64_t action;

    bool operator<(const event& other) const {
      return std::pair{when, action} > std::pair{other.when, other.action};
    }
  };

  struct host_state {
    time_point free{};         ///< when its work is done
    std::uint64_t rows = 0;    ///< that it holds or that are under way to it
    std::uint64_t arrived = 0; ///< of these, what it holds
  };

  struct worker_state {
    std::uint64_t serial = 0;
    std::uint32_t open = 0; ///< batches of the layer without an answer
    time_point since{};
    std::array<std::uint64_t, num_hosts> outstanding{};
    std::array<queue_news, num_hosts> news;
  };

  static worker_id id_of(std::uint32_t host) { return worker_id{host + 1}; }

  static std::uint32_t host_of(worker_id id) { return static_cast<std::uint32_t>(id.value - 1); }

  void at(time_point when, std::function<void()> action) {
    actions_.emplace(++last_action_, std::move(action));
    events_.push({when, last_action_});
  }

  std::uint64_t known(const worker_state& worker, std::uint32_t host) const {
    return rule_ == rule::oracle ? hosts_[host].rows
           : rule_ == rule::own  ? worker.outstanding[host]
                                 : worker.outstanding[host] + worker.news[host].rows(now_);
  }

  /// A placement reduced to the rule's choices, or the whole one if plan_dispatch chooses of two.
  layer_placement choices(const std::vector<expert_entries>& entries, worker_state& worker) {
    if (rule_ == rule::own || rule_ == rule::news)
      return placement_;
    auto result = placement_;
    std::array<std::uint64_t, num_hosts> planned{};
    for (const auto& wanted : entries) {
      auto& hosts = result.experts[wanted.expert].hosts;
      std::size_t chosen = 0;
      if (rule_ == rule::modulo)
        chosen = (worker.serial + wanted.expert) % hosts.size();
      else if (rule_ == rule::random)
        chosen = random_() % hosts.size();
      else
        for (std::size_t i = 1; i < hosts.size(); ++i)
          if (known(worker, host_of(hosts[i])) + planned[host_of(hosts[i])]
              < known(worker, host_of(hosts[chosen])) + planned[host_of(hosts[chosen])])
            chosen = i;
      planned[host_of(hosts[chosen])] += wanted.slots.size();
      hosts = {hosts[chosen]};
    }
    return result;
  }

  std::vector<expert_entries> draw() {
    std::vector<expert_entries> entries;
    for (std::uint32_t expert = 0; expert < num_experts; ++expert)
      entries.push_back({expert, {}});
    for (std::uint32_t row = 0; row < num_rows; ++row) {
      auto left = popularity_;
      for (std::uint32_t place = 0; place < top_k; ++place) {
        const auto expert = std::discrete_distribution<std::uint32_t>{left.begin(), left.end()}(random_);
        left[expert] = 0;
        entries[expert].slots.push_back(row * top_k + place);
      }
    }
    std::erase_if(entries, [](const auto& entry) { return entry.slots.empty(); });
    return entries;
  }

  void begin_layer(std::uint32_t number) {
    auto& worker = workers_[number];
    worker.since = now_;
    const auto entries = draw();
    host_knowledge knowledge;
    knowledge.usable = [](worker_id) { return true; };
    knowledge.ahead = [&](worker_id id) { return known(worker, host_of(id)); };
    const auto plan = plan_dispatch(entries, 0, top_k, choices(entries, worker), knowledge,
                                    ++worker.serial * num_workers + number);
    worker.open = static_cast<std::uint32_t>(plan.shares.size());
    for (const auto& share : plan.shares) {
      const auto host = host_of(share.host);
      const auto rows = share.slots.size();
      const auto experts = share.experts.size();
      worker.outstanding[host] += rows;
      hosts_[host].rows += rows;
      at(now_ + way, [=, this] { arrive(number, host, rows, experts); });
    }
  }

  void arrive(std::uint32_t number, std::uint32_t host, std::uint64_t rows, std::uint64_t experts) {
    auto& state = hosts_[host];
    state.arrived += rows;
    auto begins = std::max(state.free, now_);
    if (host == 0 && about_.stall > 0) {
      constexpr auto period = std::chrono::milliseconds{50};
      const auto into = (begins - start_) % period;
      const auto stalled = std::chrono::duration_cast<nanoseconds>(about_.stall * period);
      if (into < stalled)
        begins += stalled - into;
    }
    const auto work = experts * nanoseconds{expert_time} + rows * nanoseconds{row_time};
    state.free =
        begins
        + nanoseconds{static_cast<std::int64_t>(static_cast<double>(work.count()) * about_.slower[host])};
    at(state.free, [=, this] {
      hosts_[host].rows -= rows;
      hosts_[host].arrived -= rows;
      const auto queued = hosts_[host].arrived;
      at(now_ + way, [=, this] { answer(number, host, rows, queued); });
    });
  }

  void answer(std::uint32_t number, std::uint32_t host, std::uint64_t rows, std::uint64_t queued) {
    auto& worker = workers_[number];
    worker.outstanding[host] -= rows;
    worker.news[host].heard(queued, worker.outstanding[host], now_);
    if (--worker.open > 0)
      return;
    layers_.push_back(now_ - worker.since);
    begin_layer(number);
  }

  scenario about_;
  rule rule_;
  std::mt19937_64 random_;
  std::vector<double> popularity_;
  layer_placement placement_;
  const time_point start_{std::chrono::seconds{1000}};
  time_point now_ = start_;
  std::array<host_state, num_hosts> hosts_;
  std::array<worker_state, num_workers> workers_;
  std::priority_queue<event> events_;
  std::map<std::uint64_t, std::function<void()>> actions_;
  std::uint64_t last_action_ = 0;
  std::vector<nanoseconds> layers_;
};

} // namespace

int main() {
  constexpr std::array<double, num_hosts> equal{1, 1, 1, 1, 1, 1, 1, 1};
  constexpr std::array<double, num_hosts> one_slow{3, 1, 1, 1, 1, 1, 1, 1};
  const std::vector<scenario> scenarios{
      {"even, 2 copies", 2, 0, equal},
      {"skewed (Zipf 1), 2 copies", 2, 1, equal},
      {"skewed (Zipf 1), 4 copies", 4, 1, equal},
      {"one host three times slower, 2 copies", 2, 0, one_slow},
      {"skewed and one slow, 2 copies", 2, 1, one_slow},
      {"one host stands still for 5 of each 50 ms, 2 copies", 2, 0, equal, 0.1},
  };
  for (const auto& about : scenarios) {
    std::printf("%s\n", about.name);
    for (const auto by : {rule::modulo, rule::random, rule::own, rule::news, rule::all, rule::oracle}) {
      model one{about, by};
      one.run();
      one.print();
    }
  }
  return 0;
}
