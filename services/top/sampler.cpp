#include "services/top/sampler.hpp"

#include <stdexcept>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "services/client/ask_gateway.hpp"

namespace troupe::top {

namespace {

/// Deadline of one process: a process that hangs is reported and not waited for.
constexpr auto process_deadline = std::chrono::seconds{1};
constexpr auto history_interval = std::chrono::seconds{5};
/// The windows that say which experts are hot: of each attention worker one in some seconds.
constexpr const char* history_page = "/cluster/history?windows=8";
constexpr const char* placement_page = "/cluster/placement";
constexpr const char* cluster_page = "/cluster";

/// @throws std::runtime_error that names the URL of a page that `parse` cannot read
template <class Parse>
auto parsed(const std::string& url, const std::string& page, Parse parse) {
  try {
    return parse(page);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(url + ": " + error.what());
  }
}

boost::asio::awaitable<process_state> ask_process(const sampler::process& whom) {
  process_state result;
  result.role = whom.role;
  try {
    const std::string page =
        co_await ask_gateway(whom.server, whom.name, "GET", "/metrics", {}, process_deadline);
    const metrics_text metrics(page);
    result.cpu_seconds = metrics.exactly("process_cpu_seconds_total");
    result.resident_bytes = metrics.exactly("process_resident_memory_bytes");
    result.started = metrics.exactly("process_start_time_seconds");
    if (result.cpu_seconds) {
      result.answered_at = std::chrono::steady_clock::now();
    } else {
      result.error =
          whom.source + ": " + whom.name + ": there is no process_cpu_seconds_total at its /metrics";
    }
  } catch (const std::exception& error) {
    result.error = whom.source + ": " + error.what();
  }
  co_return result;
}

} // namespace

/// All at the same time.
boost::asio::awaitable<void> sampler::ask_processes(sample& result) {
  const auto executor = co_await boost::asio::this_coro::executor;
  std::size_t num_left = processes_.size();
  boost::asio::steady_timer all_answered(executor, boost::asio::steady_timer::time_point::max());
  for (const process& whom : processes_) {
    boost::asio::co_spawn(executor, ask_process(whom),
                          [&, name = whom.name](const std::exception_ptr&, process_state state) {
                            result.processes[name] = std::move(state);
                            if (--num_left == 0)
                              all_answered.cancel();
                          });
  }
  boost::system::error_code ignored;
  if (num_left > 0)
    co_await all_answered.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
}

boost::asio::awaitable<std::string> sampler::get(std::string path) {
  return ask_gateway(server_, url_, "GET", std::move(path), {}, page_deadline);
}

boost::asio::awaitable<sample> sampler::take() {
  sample result;
  const std::string metrics = co_await get("/metrics");
  result.at = std::chrono::steady_clock::now();
  result.metrics = metrics_text(metrics);
  const std::string cluster = co_await get(cluster_page);
  result.cluster = parsed(url_ + cluster_page, cluster, parse_cluster);
  forget_rows_of_others(result);
  co_await read_placement(result);
  co_await read_history(result);
  co_await ask_processes(result);
  co_return result;
}

/// The history is the scheduler's, and comes through the gateway: rows of one that has been replaced are not
/// those of its successor.
void sampler::forget_rows_of_others(const sample& now) {
  const auto started = now.metrics.exactly("process_start_time_seconds");
  if (term_ != now.cluster.scheduler.term || started_ != started) {
    recent_rows_.clear();
    rows_due_ = {};
  }
  term_ = now.cluster.scheduler.term;
  started_ = started;
}

boost::asio::awaitable<void> sampler::read_placement(sample& result) {
  try {
    const std::string placement = co_await get(placement_page);
    result.placement = parsed(url_ + placement_page, placement, parse_placement);
  } catch (const std::runtime_error& error) { // the scheduler's process may be away
    result.not_read.push_back(std::string("placement: ") + error.what());
  }
}

boost::asio::awaitable<void> sampler::read_history(sample& result) {
  if (std::chrono::steady_clock::now() >= rows_due_) {
    try {
      const std::string history = co_await get(history_page);
      recent_rows_ = parsed(url_ + history_page, history, parse_history);
      history_error_.clear();
    } catch (const std::runtime_error& error) {
      recent_rows_.clear();
      history_error_ = error.what();
    }
    // After a failure too: a page that does not come must not hold up every screen.
    rows_due_ = std::chrono::steady_clock::now() + history_interval;
  }
  result.recent_rows = recent_rows_;
  if (!history_error_.empty())
    result.not_read.push_back("history: " + history_error_);
}

} // namespace troupe::top
