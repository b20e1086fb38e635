// How the processes of a simulated cluster begin: which actors each has.

#include <algorithm>
#include <utility>

#include <caf/send.hpp>

#include "actors/attention/attention_worker.hpp"
#include "actors/cluster/member.hpp"
#include "actors/expert/expert_host.hpp"
#include "actors/expert/weights_fetcher.hpp"
#include "actors/expert/weights_sender.hpp"
#include "tests/simulation/cluster.hpp"

namespace troupe::simulation {

namespace {

std::uint32_t index_of(const std::string& machine) {
  return static_cast<std::uint32_t>(std::stoul(machine.substr(machine.rfind('-') + 1)));
}

template <class Handle>
caf::strong_actor_ptr strong(const Handle& handle) {
  return caf::actor_cast<caf::strong_actor_ptr>(handle);
}

} // namespace

void cluster::start(const std::string& machine) {
  if (is_up(machine))
    return;
  if (const auto known = scheduler_machines();
      std::find(known.begin(), known.end(), machine) != known.end()) {
    start_scheduler(machine);
    return;
  }
  const bool has_model = machine.find('-') != std::string::npos;
  auto& here = world_.start(machine, has_model ? model_.shape.fingerprint : std::string{});
  auto& added = sites_[machine];
  if (machine == "gateway")
    start_gateway(here, added);
  else if (machine.starts_with("attention-"))
    start_worker(here, added);
  else
    start_host(here, added);
}

worker_address cluster::address_of(process& here, worker_role role) {
  return {{world_.random().next() >> 1U}, role, here.machine(), here.peers().endpoint()};
}

std::shared_ptr<simulated_device> cluster::add_device(process& here) {
  auto result = std::make_shared<simulated_device>(here.system());
  here.add(result->executor());
  return result;
}

void cluster::join(process& here, site& added, worker_role role) {
  member_config config;
  config.role = role;
  config.scheduler_endpoints = scheduler_endpoints();
  config.directory = here.peers().actor();
  config.worker = added.worker;
  config.seed = world_.random().next();
  added.member = caf::actor_cast<caf::actor>(here.add(spawn_member(here.system(), std::move(config))));
}

void cluster::start_gateway(process& here, site& added) {
  gateway_config config;
  config.address = address_of(here, worker_role::gateway);
  config.directory = here.peers().actor();
  gateway_ = here.add(spawn_gateway(here.system(), std::move(config)));
  added.worker = strong(gateway_);
  join(here, added, worker_role::gateway);
}

void cluster::start_worker(process& here, site& added) {
  added.device = add_device(here);
  simulated_attention_engine::config settings;
  settings.model = model_;
  settings.costs = costs_;
  settings.num_blocks = shape_.kv_blocks;
  attention_worker_config config;
  config.address = address_of(here, worker_role::attention);
  config.max_num_seqs = shape_.num_seats;
  config.max_num_batched_tokens = 24;
  config.max_micro_batches = config.min_micro_batches = 1 + world_.random().below(3);
  config.directory = here.peers().actor();
  config.engine = std::make_shared<simulated_attention_engine>(added.device, settings);
  const auto worker = here.add(spawn_attention_worker(here.system(), std::move(config)));
  added.worker = strong(worker);
  here.peers().publish(here.machine(), worker);
  join(here, added, worker_role::attention);
}

void cluster::start_host(process& here, site& added) {
  const bool has_files = index_of(here.machine()) < shape_.num_with_files;
  added.device = add_device(here);
  simulated_expert_engine::config settings;
  settings.model = model_;
  settings.costs = costs_;
  settings.has_files = has_files;
  expert_host_config config;
  config.address = address_of(here, worker_role::expert);
  const auto engine = std::make_shared<simulated_expert_engine>(added.device, add_device(here), settings);
  config.engine = engine;
  if (!has_files) {
    weights_fetcher_config fetcher;
    fetcher.reader = config.address.id;
    fetcher.fingerprint = model_.shape.fingerprint;
    fetcher.numerics_class = model_.shape.numerics_class;
    fetcher.directory = here.peers().actor();
    fetcher.chunk_bytes = 300;
    fetcher.own_thread = false;
    config.weights = weight_origin::peers;
    config.fetcher = here.add(spawn_weights_fetcher(here.system(), std::move(fetcher)));
  }
  const auto host = here.add(spawn_expert_host(here.system(), std::move(config)));
  weights_sender_config sender_config;
  sender_config.engine = engine;
  sender_config.own_thread = false;
  const auto sender = here.add(spawn_weights_sender(here.system(), std::move(sender_config)));
  added.worker = strong(host);
  here.peers().publish(here.machine(), host);
  here.peers().publish(weights_service(here.machine()), sender);
  join(here, added, worker_role::expert);
}

} // namespace troupe::simulation
