// What it costs to split a model over processes: the same decode, by the same actors and engines, in one
// process and as one attention process with expert processes over the transport.
//
//   split_cost one MODEL_DIR [--threads N]
//   split_cost expert MODEL_DIR --index I --hosts N [--threads N] [--linger MICROSECONDS] [--shm 1]
//   split_cost attention MODEL_DIR --experts HOST:PORT,... [--threads N] [--shm 1]
//
// An expert process prints its endpoint once it holds its share of every layer. Then each reads commands and
// answers with one line of JSON: `usage`, and `run BATCH MICRO_BATCHES TOKENS` (not in an expert process).
// The end of its input ends it. split_cost.py starts all of them, alternates the two, and prints the table.

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "actors/attention/attention_metrics.hpp"
#include "actors/attention/attention_state.hpp"
#include "actors/attention/attention_worker.hpp"
#include "actors/cluster/directory.hpp"
#include "actors/engine/model_attention_engine.hpp"
#include "actors/engine/model_expert_engine.hpp"
#include "actors/expert/expert_host.hpp"
#include "actors/expert/expert_host_metrics.hpp"
#include "actors/transport/caf/transport.hpp"
#include "kernels/self_test.hpp"
#include "services/model/compute.hpp"
#include "services/model/model_source.hpp"

namespace {

using namespace troupe;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;
using json = nlohmann::json;

/// Positions of a sequence: a short prompt plus the decoded tokens.
constexpr std::uint32_t max_positions = 512;
constexpr std::uint32_t prompt_tokens = 4;
constexpr std::uint64_t kv_cache_bytes = std::uint64_t{1} << 30;

struct arguments {
  std::string mode;
  std::string model_dir;
  std::uint32_t threads = 0; ///< 0: one per processor
  std::uint32_t index = 0;
  std::uint32_t num_hosts = 1;
  std::uint32_t linger_us = 0;
  bool shared_memory = false;
  std::vector<std::string> experts;
};

/// Counts on the actors' threads, read between runs when nothing is under way.
struct counted_host : expert_host_metrics {
  explicit counted_host(std::uint64_t bytes) : expert_bytes(bytes) {}

  void on_step(std::uint32_t, std::uint32_t, std::span<const std::uint64_t> rows,
               std::uint64_t compute_ns) override {
    ++steps;
    computing_ns += compute_ns;
    for (const auto count : rows)
      streamed_bytes += count > 0 ? expert_bytes : 0;
  }

  std::uint64_t expert_bytes;
  std::uint64_t steps = 0;
  std::uint64_t streamed_bytes = 0; ///< weights, each active expert of a step once
  std::uint64_t computing_ns = 0;
};

struct counted_attention : attention_metrics {
  void on_iteration(const iteration& done) override {
    ++iterations;
    attention_ns += done.attention_ns;
    waiting_ns += done.waiting_ns;
    expert_ns += done.expert_ns;
  }

  std::uint64_t iterations = 0; ///< of micro-batches
  std::uint64_t attention_ns = 0;
  std::uint64_t waiting_ns = 0;
  std::uint64_t expert_ns = 0;
};

json usage_of(const counted_host* host) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& x) { return x.tv_sec * 1'000'000 + x.tv_usec; };
  json result{{"voluntary", usage.ru_nvcsw},
              {"involuntary", usage.ru_nivcsw},
              {"cpu_us", of(usage.ru_utime) + of(usage.ru_stime)}};
  if (host != nullptr) {
    result["steps"] = host->steps;
    result["streamed_bytes"] = host->streamed_bytes;
    result["computing_us"] = host->computing_ns / 1000;
  }
  return result;
}

/// The process's actor system, transport, model and compute threads.
class process {
 public:
  explicit process(const arguments& args) : args_(args), system_(configured(config_)) {
    model_options options;
    options.model_dir = args.model_dir;
    options.threads = args.threads;
    source_ = open_model(options);
    shape_ = shape_of(source_);
    queue_ = std::make_shared<compute_queue>(options.num_threads(), kernels::select_isa().chosen);
    if (args.mode != "one") {
      transport_options net;
      net.listen = "127.0.0.1:0";
      net.secret = "split_cost bench";
      net.net_devices = "lo";
      net.fingerprint = shape_.fingerprint;
      net.shared_memory = args.shared_memory;
      net_ = std::make_unique<transport>(system_, std::move(net));
    }
  }

  caf::actor_system& system() { return system_; }

  transport* net() { return net_.get(); }

  const model_source& source() const { return source_; }

  const model_shape& shape() const { return shape_; }

  const std::shared_ptr<compute_queue>& queue() const { return queue_; }

  /// A host with every `num_hosts`-th expert of each layer, from `index`; returns when they are loaded.
  expert_host_actor start_host(std::shared_ptr<counted_host>& counts) {
    model_expert_config engine;
    engine.shape = shape_;
    engine.backend = make_backend(source_, queue_->context())->make_experts();
    engine.queue = queue_;
    expert_host_config host;
    host.address = address_of(args_.index, "");
    host.linger = std::chrono::microseconds{args_.linger_us};
    host.engine = make_model_expert_engine(std::move(engine));
    counts = std::make_shared<counted_host>(host.engine->expert_bytes());
    host.metrics = counts;
    const auto actor = spawn_expert_host(system_, std::move(host));
    host_order order{1, 1, {}};
    for (std::uint32_t layer = 0; layer < shape_.layer_experts.size(); ++layer)
      for (std::uint32_t expert = args_.index; expert < shape_.layer_experts[layer];
           expert += args_.num_hosts)
        order.experts.push_back({layer, expert});
    caf::scoped_actor self{system_};
    self->request(actor, 300s, std::move(order))
        .receive(
            [](const host_report& report) {
              if (!report.error.empty())
                throw std::runtime_error(report.error);
            },
            [](const caf::error& error) { throw std::runtime_error(text_of(error)); });
    return actor;
  }

  static worker_address address_of(std::uint32_t index, const std::string& endpoint) {
    return {{index + 1}, worker_role::expert, "expert-" + std::to_string(index), endpoint};
  }

 private:
  static caf::actor_system_config& configured(caf::actor_system_config& config) {
    configure(config);
    configure_transport(config);
    return config;
  }

  const arguments& args_;
  std::shared_ptr<compute_queue> queue_; // outlives the actors
  caf::actor_system_config config_;
  caf::actor_system system_;
  std::unique_ptr<transport> net_;
  model_source source_;
  model_shape shape_;
};

struct run_plan {
  std::uint32_t batch = 1;
  std::uint32_t micro_batches = 1;
  std::uint32_t tokens = 1; ///< of each sequence that are timed
};

/// Tokens of each sequence before the clock starts: prefill, and until all buffers have their size.
constexpr std::uint32_t warm_up_tokens = 4;

struct client_state {
  static inline const char* name = "client";
  std::uint64_t seen = 0;
  clock_type::time_point start;
};

using client_actor = token_receiver_actor::extend<caf::reacts_to<caf::unit_t>>;

struct run_result {
  double elapsed_us = 0;
  std::uint64_t tokens = 0;
  std::string error;
};

/// The sessions of all sequences: times the tokens between warm-up and the end, then leaves.
client_actor::behavior_type client(client_actor::stateful_pointer<client_state> self, run_plan plan,
                                   run_result* into) {
  const std::uint64_t first = std::uint64_t{warm_up_tokens} * plan.batch;
  const std::uint64_t last = first + std::uint64_t{plan.tokens} * plan.batch;
  return {
      [=](const token_update& update) {
        auto& state = self->state;
        const auto before = state.seen;
        state.seen += update.tokens.size();
        if (before < first && state.seen >= first)
          state.start = clock_type::now();
        if (before < last && state.seen >= last) {
          into->elapsed_us =
              std::chrono::duration<double, std::micro>(clock_type::now() - state.start).count();
          into->tokens = last - first;
          self->quit();
        }
      },
      [=](const sequence_failed& failed) {
        into->error = failed.text;
        self->quit();
      },
      [](caf::unit_t) {},
  };
}

class attention_side {
 public:
  /// @param experts  the hosts, found by `directory` at their endpoints or in this process
  attention_side(process& here, directory_actor directory, const std::vector<worker_address>& experts)
      : here_(here), directory_(std::move(directory)) {
    model_attention_config engine;
    engine.shape = here.shape();
    engine.backend = make_backend(here.source(), here.queue()->context())
                         ->load_attention({.max_positions = max_positions});
    // A row of the embeddings is read, not the table.
    dense_bytes_ =
        engine.backend->num_bytes() - std::uint64_t{here.shape().vocab_size} * here.shape().row_bytes;
    engine.queue = here.queue();
    engine.kv_cache_bytes = kv_cache_bytes;
    engine_ = make_model_attention_engine(std::move(engine));
    view_.experts.term = 1;
    view_.experts.epoch = 1;
    view_.workers = experts;
    view_.ready = true;
    for (const auto count : here.shape().layer_experts) {
      layer_placement layer;
      layer.version = 1;
      for (std::uint32_t expert = 0; expert < count; ++expert)
        layer.experts.push_back({{experts[expert % experts.size()].id}});
      view_.experts.layers.push_back(std::make_shared<const layer_placement>(std::move(layer)));
    }
  }

  /// Decodes `plan.batch` sequences with their own seeds and a separate worker; equal plans give equal
  /// tokens, so both sides stream the same weights.
  json run(const run_plan& plan) {
    const auto metrics = std::make_shared<counted_attention>();
    attention_worker_config config;
    config.address = {{100}, worker_role::attention, "attention-0", ""};
    config.max_num_seqs = 64;
    config.max_model_len = max_positions;
    config.min_micro_batches = config.max_micro_batches = plan.micro_batches;
    config.directory = directory_;
    config.engine = engine_;
    config.metrics = metrics;
    const auto worker = spawn_attention_worker(here_.system(), std::move(config));
    caf::anon_send(worker, view_);
    const auto wire_before = wire_bytes();
    run_result result;
    caf::scoped_actor self{here_.system()};
    const auto sessions = here_.system().spawn(client, plan, &result);
    self->monitor(sessions);
    for (std::uint32_t i = 0; i < plan.batch; ++i) {
      generation_request request;
      request.id = {{++last_request_}, 0};
      request.sampling.seed = i;
      request.sampling.max_tokens = static_cast<std::int32_t>(max_positions - prompt_tokens);
      for (std::uint32_t t = 0; t < prompt_tokens; ++t)
        request.prompt.push_back(
            static_cast<std::int32_t>((i * 7919 + t * 104'729) % here_.shape().vocab_size));
      caf::send_as(sessions, worker, std::move(request));
    }
    self->receive([](const caf::down_msg&) {});
    // The sessions are gone, so the worker drops its sequences; then nothing is under way. It does not report
    // that, so this polls for at most 30 s.
    const auto patience = std::chrono::steady_clock::now() + 30s;
    for (bool is_busy = true; is_busy && std::chrono::steady_clock::now() < patience;
         std::this_thread::sleep_for(1ms))
      self->request(worker, 30s, status_atom_v)
          .receive([&](const attention_status& x) { is_busy = x.running + x.waiting > 0; },
                   [&](const caf::error&) { is_busy = false; });
    self->monitor(worker);
    caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
    self->receive([](const caf::down_msg&) {});
    if (!result.error.empty())
      return {{"error", result.error}};
    const auto layers = here_.shape().layer_experts.size();
    return {{"tokens", result.tokens},
            {"layers", layers},
            {"us_per_token_layer",
             result.elapsed_us / static_cast<double>(result.tokens) / static_cast<double>(layers)},
            {"iterations", metrics->iterations},
            {"attention_us", metrics->attention_ns / 1000},
            {"waiting_us", metrics->waiting_ns / 1000},
            {"expert_us", metrics->expert_ns / 1000},
            {"dense_bytes", dense_bytes_},
            {"wire_bytes", wire_bytes() - wire_before}};
  }

 private:
  std::uint64_t wire_bytes() {
    if (here_.net() == nullptr)
      return 0;
    const auto stats = here_.net()->stats();
    return stats.bytes_sent + stats.bytes_received;
  }

  process& here_;
  directory_actor directory_;
  std::shared_ptr<attention_engine> engine_;
  cluster_view view_;
  std::uint64_t dense_bytes_ = 0;
  std::uint64_t last_request_ = 0;
};

/// Answers commands until the input ends.
void obey(attention_side* attention, const counted_host* host) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words{line};
    std::string command;
    words >> command;
    json answer{{"error", "unknown command: " + line}};
    run_plan plan;
    if (command == "usage")
      answer = usage_of(host);
    else if (command == "run" && attention != nullptr
             && words >> plan.batch >> plan.micro_batches >> plan.tokens && plan.batch > 0
             && prompt_tokens + warm_up_tokens + plan.tokens < max_positions)
      answer = attention->run(plan);
    std::printf("%s\n", answer.dump().c_str());
    std::fflush(stdout);
  }
}

int serve(const arguments& args) {
  process here{args};
  std::shared_ptr<counted_host> counts;
  if (args.mode == "expert") {
    const auto host = here.start_host(counts);
    here.net()->publish("expert-" + std::to_string(args.index), host);
    std::printf("%s\n", here.net()->endpoint().c_str());
    std::fflush(stdout);
    obey(nullptr, counts.get());
  } else if (args.mode == "one") {
    const auto host = here.start_host(counts);
    const auto local = here.system().spawn(local_directory);
    caf::anon_send(local, caf::publish_atom_v, std::string{"expert-0"},
                   caf::actor_cast<caf::strong_actor_ptr>(host));
    attention_side attention{here, local, {process::address_of(0, "")}};
    std::printf("ready\n");
    std::fflush(stdout);
    obey(&attention, counts.get());
  } else {
    std::vector<worker_address> experts;
    for (std::uint32_t i = 0; i < args.experts.size(); ++i)
      experts.push_back(process::address_of(i, args.experts[i]));
    attention_side attention{here, caf::actor_cast<directory_actor>(here.net()->actor()), experts};
    std::printf("ready\n");
    std::fflush(stdout);
    obey(&attention, nullptr);
  }
  std::_Exit(0); // does not wait for actors that do not end
}

} // namespace

int main(int argc, char** argv) {
  arguments args;
  if (argc > 2) {
    args.mode = argv[1];
    args.model_dir = argv[2];
  }
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--threads")
      args.threads = static_cast<std::uint32_t>(std::stoul(value));
    else if (flag == "--index")
      args.index = static_cast<std::uint32_t>(std::stoul(value));
    else if (flag == "--hosts")
      args.num_hosts = static_cast<std::uint32_t>(std::stoul(value));
    else if (flag == "--linger")
      args.linger_us = static_cast<std::uint32_t>(std::stoul(value));
    else if (flag == "--shm")
      args.shared_memory = value == "1";
    else if (flag == "--experts") {
      std::istringstream list{value};
      for (std::string endpoint; std::getline(list, endpoint, ',');)
        args.experts.push_back(endpoint);
    }
  }
  const auto is_attention = args.mode == "attention" && !args.experts.empty();
  if (args.mode != "one" && args.mode != "expert" && !is_attention) {
    std::fprintf(stderr, "usage: %s one|expert|attention MODEL_DIR [flags]; see the top of split_cost.cpp\n",
                 argv[0]);
    return 2;
  }
  try {
    return serve(args);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "split_cost: %s\n", error.what());
    return 1;
  }
}
