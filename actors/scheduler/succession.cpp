#include "actors/scheduler/succession.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

/// Interval at which the caller is asked whether it gives up.
constexpr auto patience_step = std::chrono::milliseconds{20};
/// Time for the other thread to see that the caller has given up; if it hangs it is left behind.
constexpr auto last_look = 10 * defaults::standby_poll;

std::string in_use(const std::string& state_dir, const lease_holder& by) {
  return "the state directory '" + state_dir + "' is in use by " + described(by)
         + ", which is active in term " + std::to_string(by.term)
         + ": stop it, or start this one with --standby";
}

} // namespace

std::optional<succession> succeed(const candidate& who) {
  const cluster_store store{who.state_dir};
  lease_watch watch{who.state_dir, who.name};
  for (bool has_told = false; !who.gives_up || !who.gives_up();) {
    cluster_store::recovered found;
    auto lease = watch.look(clock::now(), [&] {
      found = store.load();
      return found.term;
    });
    if (lease) {
      store.save_term(lease->term());
      lease->renew(); // the disk may have taken long, and the scheduler renews once it has started
      return succession{std::move(lease), std::move(found.cluster), std::move(found.problems)};
    }
    if (watch.is_alive() && !who.is_standby)
      throw std::runtime_error(in_use(who.state_dir, *watch.holder()));
    if (watch.is_alive() && !std::exchange(has_told, true) && who.on_waiting)
      who.on_waiting(*watch.holder());
    std::this_thread::sleep_for(defaults::standby_poll); // no file system tells when a lock has gone
  }
  return std::nullopt;
}

std::optional<succession> succeed_in_time(candidate who) {
  const auto has_given_up = std::make_shared<std::atomic<bool>>(false);
  const auto gives_up = std::exchange(who.gives_up, [has_given_up] { return has_given_up->load(); });
  const auto deadline = clock::now() + defaults::state_dir_wait;
  const auto is_standby = who.is_standby;
  const auto state_dir = who.state_dir;
  std::packaged_task<std::optional<succession>()> task{[who = std::move(who)] { return succeed(who); }};
  auto result = task.get_future();
  std::thread{std::move(task)}.detach();
  while (result.wait_for(patience_step) != std::future_status::ready) {
    if (gives_up && gives_up()) {
      *has_given_up = true;
      result.wait_for(last_look); // a lease that it takes now is released with the result
      return std::nullopt;
    }
    if (!is_standby && clock::now() >= deadline) {
      *has_given_up = true;
      throw std::runtime_error("the state directory '" + state_dir + "' has not answered for "
                               + std::to_string(defaults::state_dir_wait.count())
                               + " s: does its disk or network file system hang?");
    }
  }
  return result.get();
}

} // namespace troupe
