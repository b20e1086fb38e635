// Carries what the backend's threads report to the coroutine that answers the client.
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

/// Something that happened to a job of a request.
struct generation_event {
  enum class kind : uint8_t { placed, tokens, prompt_logprobs, error };
  kind what = kind::tokens;
  uint32_t job = 0;
  uint32_t choice = 0;
  std::vector<generated_token> tokens;
  finish_reason reason = finish_reason::none; ///< of a choice that ends with these tokens
  ec code = ec::none;
  std::string text;
  std::chrono::steady_clock::time_point at;
};

/// A bounded queue of events with one reader, a coroutine on `executor`, and any number of writers. Listeners
/// may outlive the queue, and the executor: once the queue is gone they drop what they hear.
class event_queue {
 public:
  using clock = std::chrono::steady_clock;

  /// @param max_bytes  of waiting tokens; beyond it the queue overflows, and drops everything from then on
  event_queue(const boost::asio::any_io_executor& executor, size_t max_bytes);
  ~event_queue();
  event_queue(const event_queue&) = delete;
  event_queue& operator=(const event_queue&) = delete;

  /// A listener that reports as job number `job`.
  std::shared_ptr<generation_listener> listener(uint32_t job) const;

  /// Ends the reader's wait, whatever is there. On the reader's executor.
  void wake();

  /// Waits for events, wake, or the deadline; takes all events that are there (none: woken, or too late).
  task<std::vector<generation_event>> take(clock::time_point deadline);

  /// The reader fell so far behind that events were lost.
  bool overflowed() const;

 private:
  class mailbox;
  class job_listener;

  std::shared_ptr<boost::asio::steady_timer> alarm_;
  std::shared_ptr<mailbox> mailbox_;
  bool woken_ = false; // reader's executor only
};

} // namespace troupe::http
