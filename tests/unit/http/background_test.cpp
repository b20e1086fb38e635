// The order of waiting jobs, and the end of cancelled ones.
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "services/gateway/http/background.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

namespace troupe::http_test {

namespace {

namespace asio = boost::asio;

using http::background;
using namespace std::chrono_literals;

constexpr std::size_t large = 1 << 20;

/// Jobs that record their names, on a pool that a test can block.
class background_test : public testing::Test {
 protected:
  void start(std::size_t num_threads, std::size_t max_bytes = 1 << 30,
             std::chrono::milliseconds time_limit = 10s) {
    pool_ = std::make_unique<background>(num_threads, max_bytes, time_limit,
                                         std::make_shared<gateway_metrics>(families_));
  }

  /// The metrics' number in the line with this beginning.
  double metric(const std::string& line) const {
    const std::string page = families_->text();
    const std::size_t at = page.find("\ntroupe_" + line + " ");
    return at == std::string::npos ? -1 : std::stod(page.substr(at + line.size() + 9));
  }

  double ended(const std::string& how) const { return metric("text_jobs_ended_total{how=\"" + how + "\"}"); }

  /// @returns after the job's end, its name or its exception
  std::future<std::string> add(const std::string& name, std::size_t num_bytes,
                               std::function<void()> work = {},
                               background::cancellation cancelled = nullptr) {
    auto ended = std::make_shared<std::promise<std::string>>();
    auto result = ended->get_future();
    auto job = [this, name, work] {
      if (work)
        work();
      const std::lock_guard lock{mutex_};
      order_.push_back(name);
      return name;
    };
    asio::co_spawn(io_, run(num_bytes, std::move(job), std::move(cancelled)),
                   [ended](const std::exception_ptr& failure, std::string done) {
                     try {
                       if (failure)
                         std::rethrow_exception(failure);
                       ended->set_value(done);
                     } catch (const std::exception& e) {
                       ended->set_value(e.what());
                     }
                   });
    io_.restart();
    io_.poll(); // until it waits
    return result;
  }

  /// The result of a job, whose coroutine continues in this thread.
  std::string await(std::future<std::string>& job) {
    while (job.wait_for(0s) != std::future_status::ready) {
      io_.restart();
      io_.run_one_for(10ms);
    }
    return job.get();
  }

  std::vector<std::string> order() {
    const std::lock_guard lock{mutex_};
    return order_;
  }

  using job_type = std::function<std::string()>;

  http::task<std::string> run(std::size_t num_bytes, job_type job, background::cancellation cancelled) {
    co_return co_await pool_->run(num_bytes, std::move(job), std::move(cancelled));
  }

  std::shared_ptr<metrics::registry> families_ = std::make_shared<metrics::registry>("troupe_");
  asio::io_context io_;
  std::unique_ptr<background> pool_;
  std::mutex mutex_;
  std::vector<std::string> order_;
};

TEST_F(background_test, short_jobs_go_before_long_ones_that_came_earlier) {
  start(1);
  std::promise<void> begun, gate;
  auto first = add("first", 1, [&] {
    begun.set_value();
    gate.get_future().wait();
  });
  begun.get_future().wait();
  auto longest = add("longest", 64 * large);
  auto longer = add("longer", 8 * large);
  auto brief = add("brief", 10);
  auto second = add("second", 10);
  gate.set_value();
  for (auto* one : {&first, &longest, &longer, &brief, &second})
    await(*one);
  EXPECT_EQ(order(), (std::vector<std::string>{"first", "brief", "second", "longer", "longest"}));
}

TEST_F(background_test, one_of_several_threads_is_kept_for_short_jobs) {
  start(2);
  std::promise<void> begun, gate;
  const auto open = gate.get_future().share();
  auto first = add("first", large, [&] {
    begun.set_value();
    open.wait();
  });
  begun.get_future().wait();
  auto second = add("second", large);
  auto brief = add("brief", 10);
  EXPECT_EQ(await(brief), "brief") << "while long ones run and wait";
  EXPECT_EQ(order(), std::vector<std::string>{"brief"});
  gate.set_value();
  EXPECT_EQ(await(first), "first");
  EXPECT_EQ(await(second), "second");
}

TEST_F(background_test, a_job_that_nobody_wants_never_runs_and_holds_no_room) {
  start(1, 10'000);
  std::promise<void> begun, gate;
  auto first = add("first", 1, [&] {
    begun.set_value();
    gate.get_future().wait();
  });
  begun.get_future().wait();
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto left = add("left", 6000, {}, cancelled);
  auto refused = add("refused", 6000);
  EXPECT_EQ(await(refused), "requests of 0 MiB are being read already");
  pool_->cancel(cancelled);
  EXPECT_EQ(await(left), "the client has gone") << "at once, while the thread is busy";
  auto next = add("next", 6000);
  gate.set_value();
  await(first);
  await(next);
  EXPECT_EQ(order(), (std::vector<std::string>{"first", "next"}));
  EXPECT_EQ(ended("cancelled"), 1);
  EXPECT_EQ(ended("done"), 2);
}

TEST_F(background_test, tells_what_waits_and_runs) {
  start(1, 1 << 30);
  EXPECT_EQ(metric("text_bytes_limit"), 1 << 30);
  const auto idle = pool_->now();
  EXPECT_FALSE(idle.running_since);
  EXPECT_FALSE(idle.waiting_since);
  std::promise<void> begun, gate;
  auto first = add("first", 1000, [&] {
    begun.set_value();
    gate.get_future().wait();
    throw std::runtime_error("refused");
  });
  begun.get_future().wait();
  auto longer = add("longer", large);
  auto second = add("second", 2000);
  EXPECT_EQ(metric("text_jobs{state=\"running\"}"), 1);
  EXPECT_EQ(metric("text_jobs{state=\"waiting\"}"), 2);
  EXPECT_EQ(metric("text_bytes"), 3000 + large + 3 * 1024);
  const auto busy = pool_->now();
  ASSERT_TRUE(busy.running_since);
  ASSERT_TRUE(busy.waiting_since);
  EXPECT_LE(*busy.running_since, *busy.waiting_since) << "the longer one, although it has its turn last";
  EXPECT_EQ(busy.last_end, idle.last_end);
  gate.set_value();
  EXPECT_EQ(await(first), "refused");
  await(longer);
  await(second);
  EXPECT_GT(pool_->now().last_end, idle.last_end);
  EXPECT_EQ(metric("text_jobs{state=\"running\"}"), 0);
  EXPECT_EQ(metric("text_jobs{state=\"waiting\"}"), 0);
  EXPECT_EQ(metric("text_bytes"), 0);
  EXPECT_EQ(ended("failed"), 1);
  EXPECT_EQ(ended("done"), 2);
}

TEST_F(background_test, a_job_that_runs_ends_when_it_looks) {
  start(1);
  std::promise<void> begun;
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto job = add(
      "job", 1,
      [&] {
        begun.set_value();
        while (true)
          text::check_work_limit();
      },
      cancelled);
  begun.get_future().wait();
  pool_->cancel(cancelled);
  EXPECT_EQ(await(job), "the client has gone");
}

TEST_F(background_test, a_job_has_its_time) {
  start(1, 1 << 20, 50ms);
  auto job = add("job", 1, [] {
    while (true)
      text::check_work_limit();
  });
  EXPECT_EQ(await(job), "it takes more than 50 ms");
  EXPECT_EQ(ended("timed_out"), 1);
}

TEST_F(background_test, stopping_ends_what_looks_at_its_limit) {
  start(2);
  std::promise<void> begun;
  auto job = add("job", 1, [&] {
    begun.set_value();
    while (true)
      text::check_work_limit();
  });
  begun.get_future().wait();
  pool_->stop();
  EXPECT_EQ(await(job), "the client has gone");
}

} // namespace

} // namespace troupe::http_test
