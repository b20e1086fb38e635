#include "services/startup/startup.hpp"

#include <chrono>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include <unistd.h>

#include "services/metrics/process_figures.hpp"
#include "services/startup/metrics_page.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {

namespace {

constexpr auto look_for_signals = std::chrono::milliseconds{50};
constexpr auto own_stop = std::chrono::seconds{1};

void end_when_told(const std::stop_token& is_over, const process_log& log) {
  std::optional<std::chrono::steady_clock::time_point> told;
  while (!is_over.stop_requested()) {
    const auto now = std::chrono::steady_clock::now();
    if (!told && stop_signal::is_pending())
      told = now;
    if (told && now - *told >= own_stop) {
      log.line("stopping", "before the start was over");
      _exit(0);
    }
    std::this_thread::sleep_for(look_for_signals); // blocked signals do not interrupt a sleep
  }
}

} // namespace

stop_while_starting::stop_while_starting(process_log log)
    : thread_([log = std::move(log)](const std::stop_token& is_over) { end_when_told(is_over, log); }) {}

stop_while_starting::~stop_while_starting() = default;

struct startup::state {
  std::mutex mutex;
  bool is_done = false;
  metrics::probes answers;
};

startup::startup(const cluster_options& cluster, const std::string& prefix, const std::string& model_name,
                 const process_log& log)
    : families_(metrics::make_registry(prefix, model_name)),
      load_(std::make_shared<load_progress>(log)),
      state_(std::make_shared<state>()),
      stop_(std::make_unique<stop_while_starting>(log)) {
  metrics::probes answers;
  answers.why_not_ready = [now = state_, load = load_]() -> std::string {
    const std::lock_guard lock{now->mutex};
    if (now->is_done)
      return now->answers.why_not_ready ? now->answers.why_not_ready() : std::string{};
    const auto text = load->text();
    return text.empty() ? "starting" : "loading: " + text;
  };
  answers.flaw = [now = state_] {
    const std::lock_guard lock{now->mutex};
    return now->answers.flaw ? now->answers.flaw() : std::string{};
  };
  answers.loading = [now = state_, load = load_]() -> std::string {
    const std::lock_guard lock{now->mutex};
    const auto text = load->text();
    return text.empty() && !now->is_done ? "starting" : text;
  };
  pages_ = serve_metrics(cluster, families_, std::move(answers), log);
  if (pages_)
    endpoint_text_ = host_port_text(cluster.metrics_host, pages_->port());
}

startup::~startup() = default;

void startup::done(metrics::probes answers) {
  stop_.reset();
  const std::lock_guard lock{state_->mutex};
  state_->answers = std::move(answers);
  state_->is_done = true;
}

} // namespace troupe
