// What asynchrony is worth when expert hosts are not equally fast: the cluster's own attention workers and
// expert hosts on simulated engines, in virtual time, against a barrier-synchronous mode that exists only
// here.
//
//   slow_worker [--json FILE]
//
// Four attention workers of 32 sequences each or one of 128, four expert hosts, 6 layers of 16 experts,
// top-2. An attention step takes 100 us and 4 us a row; an active expert takes 30 us and each of its rows 4
// us; a message travels for 50 us. Every sequence decodes all the time.
//
// barrier  bulk-synchronous, as "ExpertFlow" (section 3.2) describes what it replaces: one micro-batch a
//          worker; no expert batch is sent before all workers have computed their attention, and no worker
//          goes on before all expert batches of all workers are answered
// m = 1    no barrier: each worker goes on when its own batches are answered
// m = 2..  as many micro-batches of a worker on their way at once
//
// With one attention worker "barrier" and m = 1 are the same, and only micro-batches let it compute while its
// hosts do; with four the others' batches keep the hosts busy, and micro-batches mostly stream weights more
// often.
//
// Printed: tokens per second of virtual time over 300 ms, over the barrier's in brackets, and the limit: the
// smallest number of micro-batches to which none adds 2 %. --json writes what tests/bench/slow_worker.py
// draws.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/actors/serving_system.hpp"

namespace troupe {

using delayed_task_ptr = std::shared_ptr<std::function<void()>>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::delayed_task_ptr)

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr std::uint32_t num_hosts = 4;
constexpr auto way = 50us; ///< of a message between processes
constexpr auto warm_up = 60ms;
constexpr auto span = 300ms;
constexpr double worthwhile = 1.02;
constexpr std::uint32_t micro_batches[] = {1, 2, 3, 4, 6, 8};

struct scenario {
  const char* name;
  std::uint32_t workers;   ///< attention workers
  std::uint32_t sequences; ///< of each
  std::uint32_t replicas;
  double slowness;                      ///< factor of the slow host's times
  std::chrono::milliseconds next_in{0}; ///< after which the next host is the slow one; 0: always the first
};

/// Holds tasks until every attention worker has submitted one.
class barrier {
 public:
  explicit barrier(std::size_t parties) : parties_(parties) {}

  void arrive(std::function<void()> task) {
    waiting_.push_back(std::move(task));
    if (waiting_.size() < parties_)
      return;
    for (auto& next : std::exchange(waiting_, {}))
      next();
  }

 private:
  std::size_t parties_;
  std::vector<std::function<void()>> waiting_;
};

/// The two barriers of a layer.
struct barriers {
  barrier attention; ///< all steps are computed
  barrier experts;   ///< all expert batches are answered
};

/// Runs tasks some time later.
class delay_line {
 public:
  explicit delay_line(caf::actor_system& system)
      : actor_(system.spawn([](caf::event_based_actor*) -> caf::behavior {
          return {[](const delayed_task_ptr& task) { (*task)(); }};
        })) {}

  const caf::actor& actor() const { return actor_; }

  void after(std::chrono::nanoseconds delay, std::function<void()> task) {
    caf::delayed_anon_send(actor_, delay, std::make_shared<std::function<void()>>(std::move(task)));
  }

 private:
  caf::actor actor_;
};

/// An attention engine behind a network: what a step sends to experts, and their answers, are delayed. With
/// barriers it waits for the other workers at both ends.
class distant_attention_engine : public attention_engine {
 public:
  distant_attention_engine(std::shared_ptr<attention_engine> inner, delay_line& line, barriers* held)
      : inner_(std::move(inner)), line_(line), held_(held) {}

  const model_shape& shape() const override { return inner_->shape(); }

  std::uint32_t block_tokens() const override { return inner_->block_tokens(); }

  std::uint32_t num_blocks() const override { return inner_->num_blocks(); }

  std::vector<kv_reach> kv_reaches() const override { return inner_->kv_reaches(); }

  void begin(attention_step_ptr step, attention_done done) override {
    inner_->begin(std::move(step), distant(std::move(done)));
  }

  void resume(attention_step_ptr step, std::vector<expert_outputs> outputs, attention_done done) override {
    auto go = [this, step = std::move(step), outputs = std::move(outputs),
               done = distant(std::move(done))]() mutable {
      inner_->resume(std::move(step), std::move(outputs), std::move(done));
    };
    line_.after(way, [this, go = std::make_shared<decltype(go)>(std::move(go))] {
      if (held_)
        held_->experts.arrive([go] { (*go)(); });
      else
        (*go)();
    });
  }

 private:
  attention_done distant(attention_done done) {
    return [this, done = std::move(done)](attention_step_ptr step, attention_result result) {
      if (result.finished) { // nothing is sent, and nothing waits: the next step begins at once
        done(std::move(step), std::move(result));
        return;
      }
      const auto kept = std::make_shared<attention_result>(std::move(result));
      auto send = [this, done, step = std::move(step), kept] {
        line_.after(way, [done, step, kept] { done(step, std::move(*kept)); });
      };
      if (held_)
        held_->attention.arrive(std::move(send));
      else
        send();
    };
  }

  std::shared_ptr<attention_engine> inner_;
  delay_line& line_;
  barriers* held_;
};

class slow_cluster : public serving_system {
 public:
  /// @param in_flight  micro-batches of a worker; 0: the barrier-synchronous mode
  /// @returns tokens per second
  double measure(const scenario& about, std::uint32_t in_flight) {
    SetUp();
    const auto rate = run_load(about, in_flight);
    TearDown();
    return rate;
  }

  void SetUp() override {
    model.shape.max_model_len = 1024;
    model.shape.layer_experts.assign(6, 16);
    costs.attention_step = 100us;
    costs.attention_row = 4us;
    costs.expert_weights = 30us;
    costs.expert_row = 4us;
    serving_system::SetUp();
  }

 private:
  void TestBody() override {}

  double run_load(const scenario& about, std::uint32_t in_flight) {
    delay_line line(system);
    root(line.actor());
    barriers held{barrier{about.workers}, barrier{about.workers}};
    std::vector<host> hosts;
    for (std::uint32_t number = 0; number < num_hosts; ++number) {
      hosts.push_back(add_host("expert-" + std::to_string(number)));
      load(hosts.back(), all_experts([&](expert_id id) {
             const auto first = id.index % num_hosts;
             return (number + num_hosts - first) % num_hosts < about.replicas;
           }));
    }
    std::vector<worker> workers;
    for (std::uint32_t number = 0; number < about.workers; ++number)
      workers.push_back(add_distant(number, about.sequences, line, in_flight == 0 ? &held : nullptr,
                                    std::max(1U, in_flight)));
    for (const auto& at : workers)
      publish(at);
    outcomes results;
    const auto client = add_client(results);
    for (std::uint32_t number = 0; number < about.workers; ++number)
      for (std::uint32_t sequence = 0; sequence < about.sequences; ++sequence)
        submit(workers[number], client, make_request(number * about.sequences + sequence + 1, 2, 1000));
    hosts[0].device->slow_down(about.slowness);
    std::uint32_t slow = 0;
    const auto pass = [&](std::chrono::milliseconds time) {
      const auto step = about.next_in > 0ms ? about.next_in : time;
      for (auto passed = 0ms; passed < time; passed += step) {
        advance(step);
        if (about.next_in > 0ms) {
          hosts[slow].device->slow_down(1);
          slow = (slow + 1) % num_hosts;
          hosts[slow].device->slow_down(about.slowness);
        }
      }
    };
    pass(warm_up);
    const auto before = rows_of(workers);
    pass(span);
    const auto tokens = rows_of(workers) - before;
    for (const auto& [id, known] : results)
      if (known.finished)
        throw std::runtime_error("a sequence has ended: " + known.failure_text);
    return static_cast<double>(tokens) / std::chrono::duration<double>(span).count();
  }

  worker add_distant(std::uint32_t number, std::uint32_t sequences, delay_line& line, barriers* held,
                     std::uint32_t in_flight) {
    worker result;
    result.address = {{1 + number}, worker_role::attention, "attention-" + std::to_string(number), ""};
    result.device = std::make_shared<simulated_device>(system);
    root(result.device->executor());
    simulated_attention_engine::config settings;
    settings.model = model;
    settings.costs = costs;
    settings.block_tokens = 16;
    settings.num_blocks = sequences * 1024 / 16;
    result.engine = std::make_shared<simulated_attention_engine>(result.device, settings);
    result.metrics = std::make_shared<counted_attention>();
    attention_worker_config config;
    config.address = result.address;
    config.directory = directory;
    config.engine = std::make_shared<distant_attention_engine>(result.engine, line, held);
    config.metrics = result.metrics;
    config.max_num_seqs = sequences;
    config.max_micro_batches = in_flight;
    config.min_micro_batches = in_flight;
    result.actor = root(spawn_attention_worker(system, config));
    members.push_back(result.address);
    caf::anon_send(directory, caf::publish_atom_v, result.address.name,
                   caf::actor_cast<caf::strong_actor_ptr>(result.actor));
    run();
    return result;
  }

  /// In decode each row is a token.
  static std::uint64_t rows_of(const std::vector<worker>& workers) {
    std::uint64_t result = 0;
    for (const auto& at : workers)
      result += at.metrics->rows;
    return result;
  }
};

nlohmann::json run_scenario(const scenario& about) {
  const auto rate_of = [&](std::uint32_t in_flight) { return slow_cluster{}.measure(about, in_flight); };
  const auto held = rate_of(0);
  nlohmann::json record{
      {"scenario", about.name}, {"workers", about.workers}, {"replicas", about.replicas}, {"barrier", held}};
  std::printf("| %u | %-37s | %u | %6.0f |", about.workers, about.name, about.replicas, held);
  std::vector<double> rates;
  for (const auto in_flight : micro_batches) {
    rates.push_back(rate_of(in_flight));
    record["micro_batches"].push_back({{"in_flight", in_flight}, {"tokens_per_second", rates.back()}});
    std::printf(" %6.0f (%.2f) |", rates.back(), rates.back() / held);
  }
  const auto best = *std::max_element(rates.begin(), rates.end());
  const auto enough =
      std::find_if(rates.begin(), rates.end(), [&](double rate) { return rate * worthwhile >= best; });
  record["limit"] = micro_batches[enough - rates.begin()];
  std::printf(" %u | %.2f |\n", record["limit"].get<std::uint32_t>(), best / held);
  return record;
}

} // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  if (argc != 1 && (argc != 3 || std::string{argv[1]} != "--json")) {
    std::fprintf(stderr, "usage: slow_worker [--json FILE]\n");
    return 2;
  }
  try {
    std::vector<scenario> scenarios;
    for (const auto& [workers, sequences] : {std::pair{1U, 128U}, std::pair{4U, 32U}})
      for (const auto replicas : {1U, 2U})
        for (const auto& [name, slowness, next_in] :
             {std::tuple{"all hosts alike", 1.0, 0ms}, std::tuple{"one host 2 x slower", 2.0, 0ms},
              std::tuple{"one host 4 x slower", 4.0, 0ms},
              std::tuple{"in turn each host 4 x slower for 2 ms", 4.0, 2ms}})
          scenarios.push_back({name, workers, sequences, replicas, slowness, next_in});
    std::printf("tokens per second (over the barrier's)\n\n| attention workers | | replicas | barrier |");
    for (const auto in_flight : micro_batches)
      std::printf(" m = %u |", in_flight);
    std::printf(" limit | best / barrier |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    auto records = nlohmann::json::array();
    for (const auto& about : scenarios)
      records.push_back(run_scenario(about));
    if (argc == 3)
      std::ofstream{argv[2]} << records.dump(1) << '\n';
    return ::testing::Test::HasFailure() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "slow_worker: %s\n", error.what());
    return 1;
  }
}
