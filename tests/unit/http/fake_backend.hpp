// A cluster that plays scripts: every job runs one, on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "services/gateway/http/generation_backend.hpp"

namespace troupe::http_test {

/// A job as its script sees it.
class fake_job {
 public:
  fake_job(generation_job ordered, std::shared_ptr<generation_listener> to)
      : asked(std::move(ordered)), listener(std::move(to)) {}

  /// The cluster has taken it.
  void place() { listener->on_placed(); }

  /// New tokens of a choice, one for each byte of `text`, in one update. Logprobs as asked for.
  void say(uint32_t choice, const std::string& text);
  /// The end of a choice, with the stop token that ended it where there is one.
  void finish(uint32_t choice, finish_reason reason, int32_t stop_token = -1);
  /// The last tokens of a choice, and that they are.
  void say_last(uint32_t choice, const std::string& text, finish_reason reason);
  void fail(ec code, const std::string& text);
  /// Logprobs of the prompt, when asked for.
  void say_prompt();

  /// Waits until the client's side cancels; false after ten seconds.
  bool wait_cancelled();
  /// Waits until it stops this choice; false after ten seconds.
  bool wait_stopped(uint32_t choice);
  bool cancelled() const;

  const generation_job asked;
  const std::shared_ptr<generation_listener> listener;

 private:
  friend class fake_handle;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  std::set<uint32_t> stopped_;
};

class fake_backend final : public generation_backend {
 public:
  using script = std::function<void(fake_job&)>;

  ~fake_backend() override;

  std::unique_ptr<generation_handle> start(generation_job job,
                                           std::shared_ptr<generation_listener> listener) override;

  uint32_t max_model_len() const override { return longest_context; }

  void view(std::function<void(std::variant<last_view, backend_error>)> then) override;
  void status(std::function<void(std::variant<scheduler_status, backend_error>)> then) override;
  void history(uint32_t max_windows,
               std::function<void(std::variant<history_snapshot, backend_error>)> then) override;
  void placement(std::function<void(std::variant<rebalancer_status, backend_error>)> then) override;
  /// Keeps the command, and answers what `obey` says.
  void change_placement(placement_command command,
                        std::function<void(std::variant<placement_change, backend_error>)> then) override;

  void trace(trace_command command,
             std::function<void(std::variant<trace_receipt, backend_error>)> then) override;

  /// Every choice says "hello wörld", as far as its tokens go, and ends with the end token.
  static void say_hello(fake_job& job);

  script play = say_hello; ///< set before the first job
  rebalancer_status planner;
  std::vector<trace_command> traced;
  std::variant<trace_receipt, backend_error> trace_answer = trace_receipt{};
  std::function<std::variant<placement_change, backend_error>(const placement_command&)> obey;
  std::vector<placement_command> commands; ///< in the order of their answers, one after the other
  bool ready = true;
  bool with_attention_worker = false; ///< in the scheduler's status
  bool scheduler_away = false;
  std::atomic<uint32_t> longest_context{0}; ///< of the workers; 0: none has joined
  /// Jobs begun; waits for the n-th, ten seconds at most.
  std::shared_ptr<fake_job> job(size_t n);
  size_t num_jobs();

 private:
  std::mutex mutex_;
  std::condition_variable begun_;
  std::vector<std::shared_ptr<fake_job>> jobs_;
  std::vector<std::thread> threads_;
};

} // namespace troupe::http_test
