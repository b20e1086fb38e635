// A GoogleTest fixture that runs actors one message at a time, with time that only the test moves.
#pragma once

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include "actors/protocol/error.hpp"
#include "actors/protocol/type_ids.hpp"

namespace troupe {

/// Base of all deterministic actor tests: CAF's test coordinator, a virtual clock, no threads, no sleeps.
///
/// Actors run in the order in which they became ready. Timeouts and delayed messages fire in order of their
/// time, and all consequences of one run before the next. Actors that nothing else stops are registered with
/// `root`; at the end of a test all roots get EXIT, and no actor may be left.
class deterministic_system : public ::testing::Test {
 public:
  using duration = std::chrono::nanoseconds;

  /// Runs all actors that have a message, at the present time. Returns how often an actor ran.
  /// A million runs without an end is a live lock and fails the test.
  std::size_t run() {
    std::size_t count = 0;
    while (coordinator.try_run_once())
      if (++count == 1'000'000) {
        ADD_FAILURE() << "actors keep each other busy without time moving";
        break;
      }
    return count;
  }

  /// Time since the start of the test.
  duration now() { return coordinator.clock().now() - start_; }

  /// Moves time by `step`, firing everything that falls due on the way in order, and runs the actors.
  void advance(duration step) {
    const auto target = coordinator.clock().now() + step;
    run();
    while (fire_next(target))
      run();
    coordinator.advance_time(target - coordinator.clock().now());
    run();
  }

  /// Runs, moving time from event to event, until `predicate` holds. False if `limit` passes first, or if no
  /// event is left.
  bool run_until(const std::function<bool()>& predicate, duration limit = std::chrono::seconds{60}) {
    const auto target = coordinator.clock().now() + limit;
    while (!predicate()) {
      if (coordinator.try_run_once())
        continue;
      if (!fire_next(target))
        return predicate();
    }
    return true;
  }

  /// Registers an actor that gets EXIT when the test ends, in the reverse order of registration.
  template <class Handle>
  Handle root(Handle handle) {
    roots_.push_back(caf::actor_cast<caf::strong_actor_ptr>(handle));
    return handle;
  }

  /// Ends an actor now, as `kill -9` of its process would: monitors see it go down.
  template <class Handle>
  void kill(const Handle& handle) {
    caf::anon_send_exit(handle, caf::exit_reason::kill);
    run();
  }

  /// Sends a request to `handle` and runs until it answers or `limit` passes.
  /// @returns the answer, or the error (sec::request_timeout after `limit`)
  template <class Result, class Handle, class... Parts>
  caf::expected<Result> ask_within(duration limit, const Handle& handle, Parts... parts) {
    caf::expected<Result> result{caf::sec::none};
    bool done = false;
    const auto requester = system.spawn([&](caf::event_based_actor* self) {
      self->request(handle, limit, std::move(parts)...)
          .then(
              [&](Result& value) {
                result = std::move(value);
                done = true;
              },
              [&](caf::error& error) {
                result = std::move(error);
                done = true;
              });
    });
    EXPECT_TRUE(run_until([&] { return done; }, limit + std::chrono::seconds{1}))
        << "neither an answer nor a timeout";
    return result;
  }

  /// The same with a limit of 5 s.
  template <class Result, class Handle, class... Parts>
  caf::expected<Result> ask(const Handle& handle, Parts... parts) {
    return ask_within<Result>(std::chrono::seconds{5}, handle, std::move(parts)...);
  }

 protected:
  void SetUp() override {
    start_ = coordinator.clock().now();
    running_at_start_ = system.registry().running();
  }

  void TearDown() override {
    while (!roots_.empty()) {
      caf::anon_send_exit(roots_.back(), caf::exit_reason::user_shutdown);
      roots_.pop_back();
      run();
    }
    EXPECT_EQ(system.registry().running(), running_at_start_) << "an actor outlived the test";
  }

 private:
  static caf::actor_system_config& configured(caf::actor_system_config& config) {
    configure(config);
    config.set("scheduler.policy", caf::atom("testing"));
    config.set("logger.file-verbosity", caf::atom("quiet"));
    config.set("logger.console-verbosity", caf::atom("quiet"));
    return config;
  }

  /// Moves time to the next event that is due by `limit` and fires it; false when there is none.
  bool fire_next(caf::actor_clock::time_point limit) {
    auto& clock = coordinator.clock();
    if (clock.schedule().empty() || clock.schedule().begin()->first > limit)
      return false;
    const auto due = clock.schedule().begin()->first;
    coordinator.advance_time(due > clock.now() ? due - clock.now() : duration::zero());
    return true;
  }

  caf::actor_system_config config_;

 public:
  caf::actor_system system{configured(config_)};
  caf::scheduler::test_coordinator& coordinator{
      dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())};

 private:
  std::vector<caf::strong_actor_ptr> roots_;
  caf::actor_clock::time_point start_{};
  std::size_t running_at_start_ = 0;
};

} // namespace troupe
