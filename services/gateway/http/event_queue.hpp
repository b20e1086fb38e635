// Carries events from the backend's threads to the coroutine that answers the client.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility> // before Asio, see exchange.hpp
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "services/gateway/http/exchange.hpp"
#include "services/gateway/http/generation_backend.hpp"

namespace troupe::http {

/// An event of one job of a request.
struct generation_event {
  enum class kind : std::uint8_t { placed, cached_tokens, tokens, prompt_logprobs, error };
  kind what = kind::tokens;
  std::uint32_t job = 0;
  std::uint32_t choice = 0;
  std::uint32_t num_cached = 0; ///< tokens of the job's prompt
  std::vector<generated_token> tokens;
  finish_reason reason = finish_reason::none; ///< set if the choice ends with these tokens
  ec code = ec::none;
  std::string text;
  std::chrono::steady_clock::time_point at;
};

/// A bounded queue of events with one reader, a coroutine on `executor`, and any number of writers. Listeners
/// may outlive the queue and the executor: once the queue is gone they drop their events.
class event_queue {
 public:
  using clock = std::chrono::steady_clock;

  /// @param max_bytes  of waiting tokens; beyond it the queue overflows and drops everything from then on
  event_queue(const boost::asio::any_io_executor& executor, std::size_t max_bytes);
  ~event_queue();
  event_queue(const event_queue&) = delete;
  event_queue& operator=(const event_queue&) = delete;

  /// A listener that reports as job number `job`.
  std::shared_ptr<generation_listener> listener(std::uint32_t job) const;

  /// Ends the wait of the reader, even without events. Call on the reader's executor.
  void wake();

  /// Waits for events, wake() or the deadline, and takes all events (none after wake() or the deadline).
  task<std::vector<generation_event>> take(clock::time_point deadline);

  /// The reader was so slow that events were lost.
  bool overflowed() const;

 private:
  class mailbox;
  class job_listener;

  std::shared_ptr<boost::asio::steady_timer> alarm_;
  std::shared_ptr<mailbox> mailbox_;
  bool woken_ = false; // used on the reader's executor only
};

} // namespace troupe::http
