// Watches for the end of a connection while one of its requests is answered.
#pragma once

#include <functional>
#include <memory>

#include "services/gateway/http/timed_stream.hpp"

namespace troupe::http {

/// Reads ahead meanwhile, because only a read tells that the client has closed its connection. All calls come
/// from the stream's executor.
class end_watch {
 public:
  /// @param max_read_ahead  bytes of further requests that are kept
  end_watch(timed_stream& stream, std::size_t max_read_ahead);

  /// Calls `ended` when the connection ends or time is up, until stop().
  /// @param owner  keeps this object and the stream until the last step of the watch has ended
  void start(std::function<void()> ended, std::shared_ptr<void> owner);

  /// Returns once no read is in progress.
  task<void> stop();

  /// The connection has ended.
  void note_end();

  /// The server waits no longer for the answer in progress.
  void hurry();

  bool time_is_up() const { return time_is_up_; }

  /// A read has failed after stop(): nothing comes after what is in the stream's buffer.
  bool read_ended() const { return read_ended_; }

 private:
  void step(std::shared_ptr<void> owner);
  void look(std::shared_ptr<void> owner);
  void step_done(std::shared_ptr<void> owner);

  timed_stream& stream_;
  const std::size_t max_read_ahead_;
  std::function<void()> on_end_;
  bool watching_ = false;
  bool in_step_ = false; // an asynchronous step is in progress
  bool time_is_up_ = false;
  bool read_ended_ = false;
  boost::asio::steady_timer look_timer_;
  boost::asio::steady_timer step_ended_;
};

} // namespace troupe::http
