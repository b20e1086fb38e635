#include "tests/simulation/process.hpp"

#include <stdexcept>

#include <caf/actor_registry.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include "actors/protocol/type_ids.hpp"
#include "actors/transport/caf/node_module.hpp"
#include "tests/simulation/simulated_fabric.hpp"

namespace troupe::simulation {

namespace {

// Actors that end say a few last words; more jobs than this are a live lock.
constexpr std::size_t most_last_jobs = 1'000'000;

} // namespace

process::process(network& carrier, std::string machine, std::uint64_t number, std::string fingerprint)
    : network_(carrier),
      machine_(std::move(machine)),
      number_(number),
      // Machines do not agree on the time, and their clocks start anywhere.
      clock_offset_(carrier.random().up_to(std::chrono::hours{1000})),
      system_(std::make_unique<caf::actor_system>(configured())),
      coordinator_(&dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler())) {
  coordinator_->clock().current_time = network_.plans().now() + clock_offset_;
  transport_options options;
  options.secret = "simulated";
  options.fingerprint = std::move(fingerprint);
  options.log = [](const char*, const std::string&) {};
  options.fabric = std::make_shared<simulated_fabric_maker>(
      network_, simulated_fabric::place{machine_, gate_, clock_offset_});
  running_at_start_ = system_->registry().running();
  peers_ = std::make_unique<transport>(*system_, std::move(options));
}

process::~process() {
  try {
    end(ending::killed);
  } catch (const std::logic_error&) { // `end` has reported it
  }
}

caf::actor_system_config& process::configured() {
  configure(config_);
  configure_transport(config_);
  config_.set("scheduler.policy", caf::atom("testing"));
  config_.set("logger.file-verbosity", caf::atom("quiet"));
  config_.set("logger.console-verbosity", caf::atom("quiet"));
  caf::put(config_.content, simulated_node_key,
           static_cast<std::int64_t>(number_)); // no option that a user may set
  return config_;
}

void process::end(ending how) {
  if (!peers_)
    return;
  const auto run = [this] {
    for (std::size_t i = 0; coordinator_->try_run_once(); ++i)
      if (i == most_last_jobs)
        fail("the actors of " + machine_ + " keep each other busy at the end");
  };
  if (how == ending::in_order) {
    gate_->go_on();
    for (; !actors_.empty(); actors_.pop_back()) {
      caf::anon_send_exit(caf::actor_cast<caf::actor>(actors_.back()), caf::exit_reason::user_shutdown);
      run();
    }
  } else {
    gate_->die();
    if (how == ending::lost)
      network_.lose(machine_);
  }
  if (how != ending::in_order) {
    for (const auto& actor : actors_)
      caf::anon_send_exit(caf::actor_cast<caf::actor>(actor), caf::exit_reason::kill);
    actors_.clear();
    // Nothing gets out any more.
    peers_.reset();
    run();
  } else {
    peers_.reset();
    run();
    gate_->die();
  }
  if (system_->registry().running() != running_at_start_)
    fail("an actor of " + machine_ + " outlived its process");
  coordinator_ = nullptr;
  system_.reset();
}

void process::fail(const std::string& why) {
  system_->await_actors_before_shutdown(false); // no thread would run them
  throw std::logic_error(why);
}

void process::run_job(dice& which) {
  auto& jobs = coordinator_->jobs;
  if (jobs.size() > 1)
    std::swap(jobs.front(), jobs[which.below(static_cast<std::uint32_t>(jobs.size()))]);
  coordinator_->try_run_once();
}

std::optional<time_point> process::next_timeout() const {
  if (!gate_->runs())
    return std::nullopt;
  const auto& planned = coordinator_->clock().schedule();
  if (planned.empty())
    return std::nullopt;
  return planned.begin()->first - clock_offset_;
}

void process::catch_up() {
  auto& clock = coordinator_->clock();
  const auto now = network_.plans().now() + clock_offset_;
  if (now > clock.now() || (!clock.schedule().empty() && clock.schedule().begin()->first <= now))
    coordinator_->advance_time(now > clock.now() ? now - clock.now() : duration::zero());
}

} // namespace troupe::simulation
