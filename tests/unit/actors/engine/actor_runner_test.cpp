// Actors that run on the thread that computed their result.
#include "actors/engine/actor_runner.hpp"

#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <gtest/gtest.h>

#include "actors/engine/compute_queue.hpp"
#include "actors/protocol/type_ids.hpp"
#include "actors/transport/caf/follow_up.hpp"
#include "kernels/isa.hpp"
#include "tests/unit/actors/told.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using thread_id = std::thread::id;

struct small_config : caf::actor_system_config {
  small_config() {
    configure(*this);
    set("scheduler.max-threads", 2);
    set("logger.file-verbosity", caf::atom("quiet"));
    set("logger.console-verbosity", caf::atom("quiet"));
  }
};

/// An actor that calls `work` with each number. The scheduler does not start it, and only its senders hold
/// it.
template <class Work>
caf::actor spawn_worker(caf::actor_system& system, Work work) {
  return system.spawn<caf::lazy_init>([work](caf::event_based_actor* self) -> caf::behavior {
    return {[self, work](int number) { work(self, number); }};
  });
}

class actor_runner_test : public ::testing::Test {
 protected:
  /// Posts `number` as a result.
  /// @returns the thread that computed; work that runs there is done then
  thread_id post(const caf::actor& to, int number) {
    const told<thread_id> posted;
    queue_.submit([to = caf::actor_cast<caf::weak_actor_ptr>(to), number, posted] {
      post_result<caf::actor>(to, number);
      posted.set(std::this_thread::get_id());
    });
    return posted.get();
  }

  compute_queue queue_{1, kernels::isa::portable};
  small_config config_;
  caf::actor_system system_{config_};
};

TEST_F(actor_runner_test, a_result_runs_its_actor_where_it_was_computed) {
  thread_id ran;
  auto sum = 0;
  const auto worker = spawn_worker(system_, [&](caf::event_based_actor*, int number) {
    ran = std::this_thread::get_id();
    sum += number;
  });
  EXPECT_EQ(post(worker, 40), ran);
  EXPECT_EQ(post(worker, 2), ran);
  EXPECT_EQ(sum, 42);
}

TEST_F(actor_runner_test, so_does_one_computed_on_a_borrowed_thread) {
  thread_id ran;
  const auto worker =
      spawn_worker(system_, [&](caf::event_based_actor*, int) { ran = std::this_thread::get_id(); });
  follow_up left;
  queue_.submit([to = caf::actor_cast<caf::weak_actor_ptr>(worker)] { post_result<caf::actor>(to, 1); });
  const auto work = left.take();
  ASSERT_TRUE(work);
  work();
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST_F(actor_runner_test, without_a_runner_the_scheduler_has_it) {
  const told<thread_id> ran;
  const auto worker =
      spawn_worker(system_, [ran](caf::event_based_actor*, int) { ran.set(std::this_thread::get_id()); });
  post_result<caf::actor>(caf::actor_cast<caf::weak_actor_ptr>(worker), 1);
  EXPECT_NE(ran.get(), std::this_thread::get_id());
}

TEST_F(actor_runner_test, those_it_wakes_run_there_when_results_go_to_them_too) {
  thread_id ran;
  const auto other =
      spawn_worker(system_, [&](caf::event_based_actor*, int) { ran = std::this_thread::get_id(); });
  const auto computes = post(other, 1);
  const auto worker =
      spawn_worker(system_, [other](caf::event_based_actor* self, int number) { self->send(other, number); });
  ran = {};
  post(worker, 2);
  EXPECT_EQ(ran, computes);
}

TEST_F(actor_runner_test, strangers_that_it_wakes_go_to_the_scheduler) {
  const told<thread_id> ran;
  const auto stranger =
      spawn_worker(system_, [ran](caf::event_based_actor*, int) { ran.set(std::this_thread::get_id()); });
  const auto worker = spawn_worker(
      system_, [stranger](caf::event_based_actor* self, int number) { self->send(stranger, number); });
  const auto computes = post(worker, 1);
  EXPECT_NE(ran.get(), computes);
}

TEST_F(actor_runner_test, an_actor_that_goes_on_and_on_is_handed_over) {
  const told<thread_id> ended;
  const auto worker = spawn_worker(system_, [ended](caf::event_based_actor* self, int number) {
    if (number < 100)
      self->send(self, number + 1);
    else
      ended.set(std::this_thread::get_id());
  });
  const auto computes = post(worker, 0);
  EXPECT_NE(ended.get(), computes);
}

TEST_F(actor_runner_test, an_actor_may_end_there) {
  const told<thread_id> gone;
  auto owned = std::shared_ptr<void>(nullptr, [gone](void*) { gone.set(std::this_thread::get_id()); });
  const auto worker =
      spawn_worker(system_, [owned = std::move(owned)](caf::event_based_actor* self, int) { self->quit(); });
  const auto computes = post(worker, 1);
  EXPECT_EQ(gone.get(), computes);
}

TEST_F(actor_runner_test, its_system_waits_for_one_that_ends_there) {
  const told<bool> ends;
  const told<bool> waited;
  std::promise<void> system_gone;
  {
    small_config config;
    caf::actor_system system(config);
    const auto worker = spawn_worker(
        system, [ends, waited, gone = system_gone.get_future().share()](caf::event_based_actor* self, int) {
          self->attach_functor([ends, waited, gone] {
            ends.set(true);
            // The last actor of the system has not ended yet: the system must not end.
            waited.set(gone.wait_for(20ms) == std::future_status::timeout);
          });
          self->quit();
        });
    queue_.submit([to = caf::actor_cast<caf::weak_actor_ptr>(worker)] { post_result<caf::actor>(to, 1); });
    ends.get();
  }
  system_gone.set_value();
  EXPECT_TRUE(waited.get());
}

TEST_F(actor_runner_test, actors_keep_denormals_and_computing_does_not) {
  const auto flushes = [] {
    volatile float small = std::numeric_limits<float>::denorm_min();
    return small * 1.0F == 0.0F;
  };
  const told<bool> in_actor;
  const told<bool> behind;
  const auto worker =
      spawn_worker(system_, [in_actor, flushes](caf::event_based_actor*, int) { in_actor.set(flushes()); });
  queue_.submit([to = caf::actor_cast<caf::weak_actor_ptr>(worker), behind, flushes] {
    post_result<caf::actor>(to, 1);
    behind.set(flushes());
  });
  EXPECT_FALSE(in_actor.get());
  EXPECT_TRUE(behind.get());
}

} // namespace
} // namespace troupe
