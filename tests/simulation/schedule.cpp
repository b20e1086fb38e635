#include "tests/simulation/schedule.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <utility>

#include "actors/protocol/error.hpp"

namespace troupe::simulation {

namespace {

using namespace std::chrono_literals;

// Most requests come within this time, and faults within this: each finds some of the others under way.
constexpr auto requests_within = 2s;
constexpr auto faults_within = 2500ms;

// Some come as late as this, when long faults are found out.
constexpr auto late_requests_within = 12s;

// What an answer may take, from the last mended fault on: a hung engine is found in some ten seconds, a batch
// waits a minute for an expert without a host, and either may come more than once.
constexpr auto answers_within = 180s;

// What a cluster without faults takes to be whole: leases, recovery and the longest pauses between attempts.
constexpr auto whole_within = 60s;

cluster_shape draw_shape(dice& random) {
  cluster_shape result;
  result.num_hosts = 1 + random.below(4);
  result.num_workers = 1 + random.below(2);
  result.num_replicas = 1 + random.below(2);
  result.num_with_files = random.one_in(3) ? 1 + random.below(result.num_hosts) : result.num_hosts;
  result.keeps_state = random.one_in(2);
  result.kv_blocks = 16U << random.below(4);
  result.num_seats = 1 + random.below(4);
  result.has_standby = result.keeps_state && random.one_in(2);
  return result;
}

class run {
 public:
  explicit run(const schedule_options& options) : options_(options), world_(options.seed) {}

  schedule_result finish() {
    try {
      play();
    } catch (const std::exception& failure) {
      violate(failure.what());
    }
    result_.messages = world_.messages();
    result_.lasted = world_.elapsed();
    return std::move(result_);
  }

 private:
  void tell(const std::string& what) {
    std::array<char, 32> time{};
    std::snprintf(time.data(), time.size(), "%10.6f s  ",
                  std::chrono::duration<double>(world_.elapsed()).count());
    result_.history.push_back(time.data() + what);
  }

  void violate(const std::string& what) {
    result_.violations.push_back(what);
    tell("VIOLATION: " + what);
  }

  void play() {
    auto& random = world_.random();
    const auto shape = draw_shape(random);
    cluster all{world_, shape, [this](const std::string& text) { tell(text); }};

    const struct ender {
      cluster& what;

      ~ender() {
        try {
          what.end();
        } catch (const std::logic_error&) { // has been told, or something worse has
        }
      }
    } at_the_end{all};

    tell("a cluster of " + std::to_string(shape.num_workers) + " attention workers and "
         + std::to_string(shape.num_hosts) + " expert hosts"
         + (shape.has_standby ? ", with a standby scheduler," : "") + " begins");
    if (!all.wait_until_whole(whole_within)) {
      violate("the cluster does not begin");
      return;
    }
    tell("the cluster is ready");
    const auto num_requests = 3 + random.below(6);
    for (std::uint32_t i = 0; i < num_requests; ++i)
      world_.plans().after(random.up_to(random.one_in(4) ? late_requests_within : requests_within),
                           [this, &all] {
                             all.open_request();
                             tell("request " + std::to_string(all.clients().size()) + " comes");
                           });
    const auto count = options_.num_faults > 0 ? options_.num_faults : 1 + random.below(5);
    auto mended = duration{faults_within};
    for (const auto& fault : draw_faults(random, all, count, options_.kinds, faults_within)) {
      mended = std::max(mended, fault.at + fault.lasts);
      world_.plans().after(fault.at, [this, &all, fault] {
        world_.run_some(fault.depth);
        if (const auto aimed = aimed_at_process(all, fault); apply(all, aimed))
          tell(in_words(aimed));
      });
    }
    world_.run_for(std::max<duration>(mended + 1s, late_requests_within));
    tell("no fault begins any more");
    const auto everybody_over = [&all, num_requests] {
      return all.clients().size() == num_requests
             && std::all_of(all.clients().begin(), all.clients().end(),
                            [](const auto& one) { return one->is_over(); });
    };
    world_.run_until(everybody_over, answers_within);
    if (!world_.run_until([&all] { return all.num_leaving() == 0; }, answers_within))
      violate("a process that leaves never ends");
    if (!all.wait_until_whole(whole_within)) {
      violate("the cluster is not whole again");
    } else {
      tell("the cluster is whole");
      all.open_request();
      tell("a last request comes");
      const auto& last = all.clients().back();
      if (!world_.run_until([&last] { return last->is_over(); }, answers_within) || !last->error().empty())
        violate("the whole cluster does not serve: " + last->error());
    }
    // What is over is cleared away within the next look at deadlines.
    world_.run_for(2s);
    judge(all);
    for (const auto& one : all.leftovers())
      violate(one);
    all.end();
  }

  void judge(cluster& all) {
    for (const auto& one : all.clients()) {
      for (const auto& wrong : one->judge(all.model()))
        violate(wrong);
      if (one->error().empty())
        continue;
      const auto sentence = "request " + std::to_string(one->request.id.value) + " failed: " + one->error();
      if (one->error_code() == ec::not_ready && !one->has_tokens()) {
        ++result_.num_refused;
        tell(sentence);
      } else {
        violate(sentence);
      }
    }
    result_.num_requests = all.clients().size();
  }

  const schedule_options& options_;
  world world_;
  schedule_result result_;
};

} // namespace

schedule_result run_schedule(const schedule_options& options) {
  return run{options}.finish();
}

} // namespace troupe::simulation
