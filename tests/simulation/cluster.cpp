#include "tests/simulation/cluster.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/send.hpp>

#include "actors/attention/attention_worker.hpp"
#include "actors/cluster/member.hpp"
#include "actors/expert/expert_host.hpp"

namespace troupe::simulation {

namespace {

using namespace std::chrono_literals;

// A client whose gateway is away tries again after so long.
constexpr auto client_pause = 100ms;

constexpr auto look_every = 100ms;

// A gateway that ends in order gives its requests so long (--drain-timeout).
constexpr auto gateway_drain = 20s;
// A worker that ends in order serves on for so long at most (its --drain-timeout).
constexpr auto worker_drain = 30s;

bool begins(const std::string& text, const char* with) {
  return text.starts_with(with);
}

} // namespace

hash_model cluster::small_model() {
  model_shape shape;
  shape.fingerprint = "simulated";
  shape.numerics_class = "simulated";
  shape.vocab_size = 997;
  shape.max_model_len = 64;
  shape.row_bytes = 64;
  shape.num_topk = 2;
  shape.layer_experts = {8, 8, 8, 8};
  return {shape, 0.5};
}

cluster::cluster(world& around, cluster_shape shape, teller tell)
    : world_(around), shape_(shape), tell_(std::move(tell)) {
  // Slow enough for faults to come in the middle of everything: an iteration takes some 30 ms.
  costs_.attention_step = 2ms;
  costs_.attention_row = 200us;
  costs_.expert_weights = 1ms;
  costs_.expert_row = 300us;
  costs_.expert_load = 2ms;
  for (const auto& machine : machines())
    start(machine);
}

std::vector<std::string> cluster::machines() const {
  auto result = scheduler_machines();
  result.emplace_back("gateway");
  for (std::uint32_t i = 0; i < shape_.num_workers; ++i)
    result.push_back("attention-" + std::to_string(i));
  for (std::uint32_t i = 0; i < shape_.num_hosts; ++i)
    result.push_back("expert-" + std::to_string(i));
  return result;
}

void cluster::end() {
  waiting_.clear();
  for (const auto& machine : machines())
    end(machine, ending::killed);
}

void cluster::end(const std::string& machine, ending how) {
  if (!is_up(machine))
    return;
  // Handles must not outlive their actor system.
  sites_.erase(machine);
  leaders_.erase(machine);
  if (machine == lease_.machine)
    lease_.has_lock = how == ending::lost;
  if (machine == "gateway") {
    gateway_ = nullptr;
    sessions_.clear();
    drains_ = false;
    turn_clients_away();
  }
  world_.end(machine, how);
}

void cluster::turn_clients_away() {
  for (const auto& one : clients_)
    if (!one->is_over() && sessions_began_.contains(one->request.id.value))
      one->has_left = true;
}

void cluster::drain_gateway(const process_gate_ptr& gate, time_point until, std::function<void()> gone) {
  if (gate->is_dead())
    return;
  drains_ = true;
  const bool is_over = std::all_of(clients_.begin(), clients_.end(), [this](const auto& one) {
    return one->is_over() || !sessions_began_.contains(one->request.id.value);
  });
  if (!is_over && world_.plans().now() < until) {
    world_.plans().after(look_every,
                         [this, gate, until, gone = std::move(gone)] { drain_gateway(gate, until, gone); });
    return;
  }
  turn_clients_away();
  leave_and_end("gateway", std::move(gone));
}

void cluster::retire(const std::string& machine, std::function<void()> gone) {
  auto* const here = world_.find(machine);
  if (here == nullptr || !here->runs())
    return;
  leaving_[machine] = here->gate();
  if (machine == "gateway")
    drain_gateway(here->gate(), world_.plans().now() + gateway_drain, std::move(gone));
  else
    leave_and_end(machine, std::move(gone));
}

std::size_t cluster::num_leaving() const {
  return static_cast<std::size_t>(std::count_if(leaving_.begin(), leaving_.end(),
                                                [](const auto& entry) { return !entry.second->is_dead(); }));
}

void cluster::leave_and_end(const std::string& machine, std::function<void()> gone) {
  auto* const here = world_.find(machine);
  if (here == nullptr)
    return;
  const auto leave = [this, machine, gate = here->gate(), gone = std::move(gone)] {
    if (gate->is_dead())
      return;
    end(machine, ending::in_order);
    gone();
  };
  const auto& member = sites_[machine].member;
  if (!member) {
    world_.plans().after(0ms, leave);
    return;
  }
  // Its answer comes from within the process that is to end.
  const auto soon = [this, leave] { world_.plans().after(0ms, leave); };
  here->add(here->system().spawn([member, soon](caf::event_based_actor* self) {
    self->request(caf::actor_cast<member_actor>(member), worker_drain, caf::leave_atom_v)
        .then(soon, [soon](const caf::error&) { soon(); });
  }));
}

simulated_device* cluster::device_of(const std::string& machine) {
  const auto found = sites_.find(machine);
  return found == sites_.end() ? nullptr : found->second.device.get();
}

// -- requests -------------------------------------------------------------------------

void cluster::open_request() {
  auto& random = world_.random();
  session_request request;
  request.id = {clients_.size() + 1};
  request.num_choices = 1 + random.below(2);
  request.priority = static_cast<std::int32_t>(random.below(3));
  request.sampling.seed = random.next();
  request.sampling.max_tokens = static_cast<std::int32_t>(1 + random.below(24));
  if (random.one_in(4))
    request.sampling.prompt_logprobs = 1;
  request.prefix_unit = simulated_attention_engine::config{}.block_tokens;
  if (random.one_in(2)) // one of three beginnings of half a prompt, as a system prompt is
    for (auto left = 16 + random.below(5), token = 100 * random.below(3); left > 0; --left)
      request.prompt.push_back(static_cast<std::int32_t>(++token));
  for (auto left = 1 + random.below(20); left > 0; --left)
    request.prompt.push_back(static_cast<std::int32_t>(random.below(model_.shape.vocab_size)));
  auto added = std::make_shared<client>(std::move(request));
  if (random.one_in(4))
    added->patience = 1 + random.below(12);
  added->on_leaving = [this, id = added->request.id.value] {
    if (const auto found = sessions_.find(id); found != sessions_.end())
      caf::anon_send(found->second, cancel_atom_v);
  };
  clients_.push_back(added);
  submit(added);
}

void cluster::submit(const std::shared_ptr<client>& whose) {
  auto* const here = world_.find("gateway");
  if (here == nullptr || !here->runs() || drains_) {
    world_.plans().after(client_pause, [this, whose] { submit(whose); });
    return;
  }
  const auto session = here->add(spawn_session(here->system(), gateway_, whose->request, whose));
  sessions_began_.insert(whose->request.id.value);
  sessions_[whose->request.id.value] = session;
  caf::actor_cast<caf::abstract_actor*>(session)->attach_functor(
      [whose](const caf::error&) { whose->session_over = true; });
}

// -- state ------------------------------------------------------------------------------

template <class Result, class Handle, class... Parts>
std::optional<Result> cluster::ask(const std::string& machine, const Handle& handle, Parts... parts) {
  std::optional<Result> result;
  bool done = false;
  auto* const here = world_.find(machine);
  if (here == nullptr)
    return result;
  here->ask<Result>(
      [&](caf::expected<Result> said) {
        if (said)
          result = std::move(*said);
        done = true;
      },
      handle, std::move(parts)...);
  world_.run_until([&] { return done; }, 6s);
  return result;
}

bool cluster::wait_until_whole(duration limit) {
  const auto everybody = shape_.num_hosts + shape_.num_workers + 1;
  for (const auto deadline = world_.elapsed() + limit; world_.elapsed() < deadline;) {
    world_.run_for(look_every);
    const auto leading = leading_machine();
    if (leading.empty())
      continue;
    if (const auto status = ask<scheduler_status>(leading, leaders_[leading].scheduler, status_atom_v);
        status && status->ready && status->workers.size() == everybody)
      return true;
  }
  return false;
}

std::vector<std::string> cluster::leftovers() {
  std::vector<std::string> result;
  const auto expect_none = [&result](std::uint64_t count, const std::string& what) {
    if (count > 0)
      result.push_back(std::to_string(count) + " " + what + " left behind");
  };
  for (const auto& one : clients_)
    if (!one->session_over)
      result.push_back("the session of request " + std::to_string(one->request.id.value) + " is still there");
  for (const auto& machine : machines()) {
    if (begins(machine, "attention-")) {
      const auto status = ask<attention_status>(
          machine, caf::actor_cast<attention_worker_actor>(sites_[machine].worker), status_atom_v);
      if (!status) {
        result.push_back(machine + " does not say its status");
        continue;
      }
      expect_none(status->running + status->waiting, "sequences of " + machine + " are");
      expect_none(status->kv_blocks_used, "KV blocks of " + machine + " are");
    } else if (begins(machine, "expert-")) {
      const auto status = ask<expert_host_status>(
          machine, caf::actor_cast<expert_host_actor>(sites_[machine].worker), status_atom_v);
      if (!status)
        result.push_back(machine + " does not say its status");
      else
        expect_none(status->queued_rows, "rows of " + machine + " are");
    }
  }
  const auto leading = leading_machine();
  const auto status = leading.empty()
                          ? std::nullopt
                          : ask<scheduler_status>(leading, leaders_[leading].scheduler, status_atom_v);
  if (!status) {
    result.push_back("the scheduler does not say its status");
    return result;
  }
  expect_none(status->queued, "queued requests of the scheduler are");
  expect_none(status->assigned, "places of the scheduler are");
  return result;
}

void cluster::move_everything() {
  const auto leading = leading_machine();
  if (leading.empty())
    return;
  // Asked from within the scheduler's process, by its own clock; what it says then decides.
  world_.find(leading)->ask<scheduler_status>(
      [this, gate = lease_.gate,
       rebalancer = leaders_[leading].rebalancer](const caf::expected<scheduler_status>& said) {
        if (!said || !said->ready || gate->is_dead())
          return;
        const auto& status = *said;
        std::map<worker_id, std::string> names;
        for (const auto& one : status.workers)
          if (one.address.role == worker_role::expert)
            names[one.address.id] = one.address.name;
        placement_command all;
        all.action = placement_action::assign;
        for (std::uint32_t layer = 0; layer < status.experts.layers.size(); ++layer)
          for (std::uint32_t index = 0; index < status.experts.layers[layer]->experts.size(); ++index) {
            auto hosts = status.experts.layers[layer]->experts[index].hosts;
            if (hosts.empty())
              return;
            for (const auto& [id, name] : names)
              if (std::find(hosts.begin(), hosts.end(), id) == hosts.end()) {
                hosts[world_.random().below(static_cast<std::uint32_t>(hosts.size()))] = id;
                break;
              }
            named_hosts wanted{{layer, index}, {}};
            for (const auto id : hosts) {
              const auto found = names.find(id);
              if (found == names.end())
                return;
              wanted.hosts.push_back(found->second);
            }
            all.experts.push_back(std::move(wanted));
          }
        caf::anon_send(rebalancer, std::move(all));
      },
      leaders_[leading].scheduler, status_atom_v);
}

} // namespace troupe::simulation
