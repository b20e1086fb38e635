// A whole cluster in a simulated world: scheduler, gateway, attention workers and expert hosts, each a
// process on a machine of its own, with the actors of the real programs on simulated engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/gateway/gateway.hpp"
#include "actors/gateway/session.hpp"
#include "actors/protocol/status_messages.hpp"
#include "actors/rebalancer/rebalancer.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "tests/simulation/client.hpp"
#include "tests/simulation/memory_storage.hpp"
#include "tests/simulation/process_gate.hpp"
#include "tests/simulation/simulated_engine.hpp"
#include "tests/simulation/world.hpp"

namespace troupe::simulation {

/// Numbers of processes, and their sizes.
struct cluster_shape {
  std::uint32_t num_hosts = 2;   ///< expert hosts
  std::uint32_t num_workers = 1; ///< attention workers
  std::uint32_t num_replicas = 1;
  std::uint32_t num_with_files = 2; ///< expert hosts that can read weights; the others get theirs from them
  bool keeps_state = true;          ///< the scheduler has a disk
  bool has_standby = false;         ///< a second scheduler waits for the lease; needs keeps_state
  std::uint32_t num_seats = 4;      ///< sequences that an attention worker runs at once
  std::uint32_t kv_blocks = 64; ///< of an attention worker; 16 hold the longest sequence, and no second one
};

/// Machines: "scheduler", "standby" where there is one, "gateway", "attention-N", "expert-N". The standby is
/// the machine; which of the two runs the scheduler changes. The other one has no process: it would only look
/// at the lease.
class cluster {
 public:
  /// Something worth telling, as it happens.
  using teller = std::function<void(const std::string& text)>;

  /// Starts all processes.
  cluster(world& around, cluster_shape shape, teller tell);

  /// Ends them all.
  /// @throws std::logic_error when an actor outlives its process
  void end();

  world& around() { return world_; }

  const cluster_shape& shape() const { return shape_; }

  const hash_model& model() const { return model_; }

  std::vector<std::string> machines() const;

  // -- processes --------------------------------------------------------------

  bool is_up(const std::string& machine) { return world_.find(machine) != nullptr; }

  /// The machine of the scheduler for one that waits to be it; any other as it is.
  std::string with_process(const std::string& machine) const;

  /// On a machine that has none.
  void start(const std::string& machine);

  void end(const std::string& machine, ending how);

  /// Ends it in order once it has left the cluster, and calls `gone`.
  void retire(const std::string& machine, std::function<void()> gone);

  /// Processes that `retire` has told to leave and that have neither ended nor died.
  std::size_t num_leaving() const;

  /// The machine's engine; null if it has none, or no process.
  simulated_device* device_of(const std::string& machine);

  /// Has every expert change its hosts. Does nothing when nothing can move now.
  void move_everything();

  // -- requests -----------------------------------------------------------------

  /// One of random size, from now on. While the gateway is away its client tries again.
  void open_request();

  const std::vector<std::shared_ptr<client>>& clients() const { return clients_; }

  // -- state --------------------------------------------------------------------

  /// Runs the world until the scheduler is ready and has all members.
  /// @returns false if that takes longer than `limit`
  bool wait_until_whole(duration limit);

  /// What is left of requests that are over, one sentence each.
  std::vector<std::string> leftovers();

 private:
  struct site {
    std::shared_ptr<simulated_device> device;
    caf::actor member;
    caf::strong_actor_ptr worker;
  };

  /// The actors of a process that is, or has been, the scheduler.
  struct leader {
    scheduler_actor scheduler;
    rebalancer_actor rebalancer;
  };

  /// The process that may be the scheduler.
  struct scheduler_lease {
    std::string machine{};
    process_gate_ptr gate{};
    bool has_lock = true; ///< its machine has not told that the process has ended
  };

  static hash_model small_model();
  std::vector<std::string> scheduler_machines() const;
  std::vector<std::string> scheduler_endpoints() const;
  bool is_lease_free(const std::string& machine) const;
  /// Begins as the scheduler, or waits until it may.
  void start_scheduler(const std::string& machine);
  void await_lease(const std::string& machine);
  void lead(process& here);
  void step_down(const std::string& machine, const process_gate_ptr& gate);
  /// Where the scheduler is that holds the lease; empty while none does.
  std::string leading_machine() const;
  void start_gateway(process& here, site& added);
  void start_worker(process& here, site& added);
  void start_host(process& here, site& added);
  void join(process& here, site& added, worker_role role);
  worker_address address_of(process& here, worker_role role);
  std::shared_ptr<simulated_device> add_device(process& here);

  /// Asks and waits, while everything goes on. Empty when there is no answer.
  template <class Result, class Handle, class... Parts>
  std::optional<Result> ask(const std::string& machine, const Handle& handle, Parts... parts);
  void leave_and_end(const std::string& machine, std::function<void()> gone);
  void drain_gateway(const process_gate_ptr& gate, time_point until, std::function<void()> gone);
  /// Those whose requests the gateway has: their connections end.
  void turn_clients_away();
  void submit(const std::shared_ptr<client>& whose);

  world& world_;
  cluster_shape shape_;
  teller tell_;
  hash_model model_ = small_model();
  simulated_costs costs_;
  std::shared_ptr<scheduler_disk> disk_ = std::make_shared<scheduler_disk>();
  std::map<std::string, site> sites_;
  std::map<std::string, leader> leaders_; ///< by machine, as long as their processes live
  scheduler_lease lease_;
  std::set<std::string> waiting_; ///< machines that wait for the lease
  gateway_actor gateway_;
  bool drains_ = false;                             ///< the gateway takes nothing new
  std::map<std::string, process_gate_ptr> leaving_; ///< by machine
  std::vector<std::shared_ptr<client>> clients_;
  std::set<std::uint64_t> sessions_began_;          ///< by request
  std::map<std::uint64_t, session_actor> sessions_; ///< by request, as long as their process lives
};

} // namespace troupe::simulation
