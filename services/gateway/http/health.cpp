#include "services/gateway/http/health.hpp"

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace troupe::http {

namespace {

long long ms_of(health::clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

} // namespace

/// Shared by a loop and its watcher. The timer belongs to the loop and ends with it.
struct health::heart {
  std::chrono::milliseconds interval;
  std::function<clock::time_point()> now;
  std::atomic<clock::time_point> last;
  std::atomic<bool> is_watched{true};

  static void beat(std::shared_ptr<heart> one, std::unique_ptr<boost::asio::steady_timer> timer) {
    timer->expires_after(one->interval);
    auto& waiting = *timer;
    waiting.async_wait(
        [one = std::move(one), timer = std::move(timer)](const boost::system::error_code& error) mutable {
          if (error || !one->is_watched)
            return;
          one->last = one->now();
          beat(std::move(one), std::move(timer));
        });
  }
};

health::health(limits bounds, std::function<pool_progress()> pool, std::function<clock::time_point()> now)
    : bounds_(bounds), pool_(std::move(pool)), now_(std::move(now)) {}

health::~health() {
  for (const auto& one : hearts_)
    one->is_watched = false;
}

void health::watch(boost::asio::io_context& loop) {
  auto one = std::make_shared<heart>();
  one->interval = bounds_.beat;
  one->now = now_;
  one->last = now_();
  hearts_.push_back(one);
  heart::beat(std::move(one), std::make_unique<boost::asio::steady_timer>(loop));
}

std::string health::flaw() const {
  const auto now = now_();
  const auto pool = pool_();
  if (pool.running_since && now - *pool.running_since > bounds_.job)
    return "a request's text has been worked on for " + std::to_string(ms_of(now - *pool.running_since))
           + " ms, which should end within " + std::to_string(bounds_.job.count()) + " ms";
  if (pool.waiting_since && now - *pool.waiting_since > bounds_.stall && now - pool.last_end > bounds_.stall)
    return "a request has waited for a text thread for " + std::to_string(ms_of(now - *pool.waiting_since))
           + " ms, and no text work has ended for " + std::to_string(ms_of(now - pool.last_end)) + " ms";
  for (const auto& one : hearts_)
    if (const auto age = now - one->last.load(); age > bounds_.late)
      return "an event loop of the HTTP server has not turned for " + std::to_string(ms_of(age)) + " ms";
  return {};
}

} // namespace troupe::http
