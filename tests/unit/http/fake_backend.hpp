// A fake cluster: every job runs a script, on a thread of its own.
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

#include "services/gateway/http/control_backend.hpp"
#include "services/gateway/http/generation_backend.hpp"

namespace troupe::http_test {

/// A job, for its script.
class fake_job {
 public:
  fake_job(generation_job ordered, std::shared_ptr<generation_listener> to)
      : asked(std::move(ordered)), listener(std::move(to)) {}

  /// The cluster has accepted it.
  void place() { listener->on_placed(); }

  /// New tokens of a choice, one for each byte of `text`, in one update. Logprobs as requested.
  void say(std::uint32_t choice, const std::string& text);
  /// The end of a choice, with its stop token if there is one.
  void finish(std::uint32_t choice, finish_reason reason, std::int32_t stop_token = -1);
  /// The last tokens of a choice, with its end.
  void say_last(std::uint32_t choice, const std::string& text, finish_reason reason);
  void fail(ec code, const std::string& text);
  /// Logprobs of the prompt, if requested.
  void say_prompt();

  /// Waits until the client cancels; false after ten seconds.
  bool wait_cancelled();
  /// Waits until it stops this choice; false after ten seconds.
  bool wait_stopped(std::uint32_t choice);
  bool cancelled() const;

  const generation_job asked;
  const std::shared_ptr<generation_listener> listener;

 private:
  friend class fake_handle;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  std::set<std::uint32_t> stopped_;
};

class fake_backend final : public generation_backend, public control_backend {
 public:
  using script = std::function<void(fake_job&)>;

  ~fake_backend() override;

  std::unique_ptr<generation_handle> start(generation_job job,
                                           std::shared_ptr<generation_listener> listener) override;

  std::uint32_t max_model_len() const override { return longest_context; }

  void view(std::function<void(std::variant<last_view, backend_error>)> then) override;
  /// Records commands; answers a placement_command with the result of `obey`.
  void ask(const control_question& question, std::function<void(control_outcome)> then) override;

  /// Every choice says "hello wörld", as far as its tokens suffice, and ends with the end token.
  static void say_hello(fake_job& job);

  script play = say_hello; ///< set before the first job
  rebalancer_status planner;
  std::vector<trace_command> traced;
  control_outcome trace_answer = trace_receipt{};
  std::function<control_outcome(const placement_command&)> obey;
  std::vector<placement_command> commands; ///< in the order of their answers, one after the other
  bool ready = true;
  bool with_attention_worker = false; ///< in the scheduler's status
  bool scheduler_away = false;
  bool has_been_ready = true;
  std::atomic<std::uint32_t> longest_context{0}; ///< of the workers; 0: none has joined
  /// Started jobs; waits for the n-th, at most ten seconds.
  std::shared_ptr<fake_job> job(std::size_t n);
  std::size_t num_jobs();

 private:
  control_outcome answer(const status_question& question) const;
  control_outcome answer(const history_question& question) const;
  control_outcome answer(const placement_question& question) const;
  control_outcome answer(const placement_command& command);
  control_outcome answer(const trace_command& command);

  std::mutex mutex_;
  std::condition_variable begun_;
  std::vector<std::shared_ptr<fake_job>> jobs_;
  std::vector<std::thread> threads_;
};

} // namespace troupe::http_test
