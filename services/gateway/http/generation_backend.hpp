// What HTTP needs of the cluster, without actors: generation, the view, the status. The actors' side is
// actor_backend; tests use a scripted one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/attention/generation_messages.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/status_messages.hpp"
#include "actors/cluster/trace_messages.hpp"
#include "actors/error.hpp"
#include "actors/history/history_messages.hpp"
#include "actors/rebalancer/rebalancer_messages.hpp"
#include "actors/request_context.hpp"

namespace troupe {

/// One prompt to continue.
struct generation_job {
  std::vector<int32_t> prompt;
  sampling_params sampling;
  uint32_t num_choices = 1;
  int32_t priority = 0;
  bool open_ended = false; ///< fewer new tokens than sampling.max_tokens will do where the context ends
  bool follows = false;    ///< another prompt of the same request has a token already
  std::string tenant;      ///< the name of the client's API key: it waits in turn with others
  uint32_t weight = 1;     ///< turns for each one of a tenant of weight 1
  request_context context{};
};

/// Hears what becomes of a job. Called on the backend's threads; an implementation hands over and returns, it
/// neither blocks nor throws. Nothing is called after the end of all choices or after on_error.
class generation_listener {
 public:
  virtual ~generation_listener() = default;

  /// The cluster has taken the job and begins to run it. May never be called.
  virtual void on_placed() {}

  /// New tokens of a choice, each exactly once and in order. A reason other than none: the choice is complete
  /// with them. `stop`: the last of them is the stop token that ended it; with no token: it was stopped.
  virtual void on_tokens(uint32_t choice, const std::vector<generated_token>& tokens,
                         finish_reason reason) = 0;
  /// Of prompt positions 1.., once, before the first token, when asked for.
  virtual void on_prompt_logprobs(const std::vector<generated_token>& tokens) = 0;

  /// The job failed as a whole.
  virtual void on_error(ec code, const std::string& text) = 0;
};

/// A job that runs. Its functions may be called at any time, from any thread; they do not block.
class generation_handle {
 public:
  virtual ~generation_handle() = default;
  /// This choice needs no more tokens.
  virtual void stop(uint32_t choice) = 0;
  /// Nobody waits any more: everything of it is freed, and the listener hears nothing more after a while.
  virtual void cancel() = 0;
};

struct backend_error {
  ec code = ec::none;
  std::string text;
};

/// What the gateway knows of the cluster without asking.
struct last_view {
  cluster_view cluster;
  bool scheduler_away = false; ///< for so long that new requests are refused
};

/// The cluster. Thread-safe; nothing blocks.
class generation_backend {
 public:
  virtual ~generation_backend() = default;
  /// Never fails by itself: refusals come through the listener.
  virtual std::unique_ptr<generation_handle> start(generation_job job,
                                                   std::shared_ptr<generation_listener> listener) = 0;
  /// Positions of the longest sequence that a worker of the cluster takes, as far as is known; 0: no worker
  /// has been there yet.
  virtual uint32_t max_model_len() const = 0;
  /// The last view of the cluster; `then` is called exactly once, on any thread.
  virtual void view(std::function<void(std::variant<last_view, backend_error>)> then) = 0;
  /// The scheduler's own account; `then` is called exactly once, on any thread, within a deadline.
  virtual void status(std::function<void(std::variant<scheduler_status, backend_error>)> then) = 0;
  /// The activation history with at most so many of its recent windows; `then` as with `status`.
  virtual void history(uint32_t max_windows,
                       std::function<void(std::variant<history_snapshot, backend_error>)> then) = 0;
  /// What the rebalancer is doing; `then` as with `status`.
  virtual void placement(std::function<void(std::variant<rebalancer_status, backend_error>)> then) = 0;
  /// An operator's word on the placement, given once; `then` as with `status`, within minutes. With
  /// ec::deadline_exceeded and ec::peer_down it may have been carried out all the same.
  virtual void change_placement(placement_command command,
                                std::function<void(std::variant<placement_change, backend_error>)> then) = 0;
  /// What all processes are to trace; `then` as with `status`.
  virtual void trace(trace_command command,
                     std::function<void(std::variant<trace_receipt, backend_error>)> then) = 0;
};

} // namespace troupe
