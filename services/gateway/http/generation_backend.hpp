// Generation as HTTP sees it, without actors: jobs, and what the gateway knows of the cluster. The actors'
// side is actor_backend; tests use a scripted one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/error.hpp"
#include "actors/protocol/generation_messages.hpp"
#include "actors/protocol/request_context.hpp"

namespace troupe {

/// One prompt to continue.
struct generation_job {
  std::vector<std::int32_t> prompt;
  sampling_params sampling;
  std::uint32_t num_choices = 1;
  std::int32_t priority = 0;
  bool open_ended = false;  ///< the answer may be shorter than sampling.max_tokens if the context ends
  bool follows = false;     ///< another prompt of the same request already has a token
  std::string tenant;       ///< the name of the client's API key: it waits in turn with others
  std::uint32_t weight = 1; ///< turns for each one of a tenant of weight 1
  request_context context{};
  std::string cache_salt{}; ///< its prompt is shared with jobs of this salt only
};

/// Receives the tokens of a job. Called on the backend's threads: an implementation hands over and returns;
/// it neither blocks nor throws. No call follows the end of all choices or on_error.
class generation_listener {
 public:
  virtual ~generation_listener() = default;

  /// The cluster has taken the job and begins to run it. May never be called.
  virtual void on_placed() {}

  /// New tokens of a choice, each exactly once and in order. A reason other than none: the choice is complete
  /// with them. `stop`: the last of them is the stop token that ended it; with no token: it was stopped.
  virtual void on_tokens(std::uint32_t choice, const std::vector<generated_token>& tokens,
                         finish_reason reason) = 0;

  /// Tokens of the prompt whose keys were known. Once, before the first token.
  virtual void on_cached_tokens(std::uint32_t /*num_tokens*/) {}

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
  virtual void stop(std::uint32_t choice) = 0;
  /// The client is gone: frees everything of the job. The listener may be called for a short time after.
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
  bool has_been_ready = false; ///< the cluster was at some time since this gateway started
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
  virtual std::uint32_t max_model_len() const = 0;
  /// The last view of the cluster; `then` is called exactly once, on any thread.
  virtual void view(std::function<void(std::variant<last_view, backend_error>)> then) = 0;
};

} // namespace troupe
