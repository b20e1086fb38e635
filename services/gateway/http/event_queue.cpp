#include "services/gateway/http/event_queue.hpp"

#include <mutex>

#include "services/gateway/openai/answer_size.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace troupe::http {

namespace asio = boost::asio;

/// The half of the writers. It uses executor and alarm only until it is closed.
class event_queue::mailbox {
 public:
  mailbox(asio::any_io_executor executor, std::shared_ptr<asio::steady_timer> alarm, std::size_t max_bytes)
      : executor_(std::move(executor)), alarm_(std::move(alarm)), max_bytes_(max_bytes) {}

  void push(generation_event event, std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    if (alarm_ == nullptr || overflowed_)
      return;
    waiting_bytes_ += bytes;
    if (waiting_bytes_ > max_bytes_) {
      overflowed_ = true;
      waiting_.clear();
    } else {
      waiting_.push_back(std::move(event));
    }
    // One notice is enough for all waiting events. It goes through the executor, so that it comes after the
    // reader has begun to wait.
    if (!notified_)
      asio::post(executor_, [alarm = alarm_] { alarm->cancel(); });
    notified_ = true;
  }

  /// Takes all waiting events. @returns whether there is anything to act on
  bool take(std::vector<generation_event>& events) {
    const std::lock_guard lock{mutex_};
    events.swap(waiting_);
    waiting_bytes_ = 0;
    notified_ = false;
    return !events.empty() || overflowed_;
  }

  bool overflowed() const {
    const std::lock_guard lock{mutex_};
    return overflowed_;
  }

  void close() {
    const std::lock_guard lock{mutex_};
    alarm_.reset();
    executor_ = asio::any_io_executor{};
    waiting_.clear();
  }

 private:
  mutable std::mutex mutex_;
  asio::any_io_executor executor_;
  std::shared_ptr<asio::steady_timer> alarm_;
  const std::size_t max_bytes_;
  std::vector<generation_event> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool notified_ = false;
  bool overflowed_ = false;
};

class event_queue::job_listener final : public generation_listener {
 public:
  job_listener(std::shared_ptr<mailbox> queue, std::uint32_t job) : queue_(std::move(queue)), job_(job) {}

  void on_placed() override { queue_->push(event(generation_event::kind::placed), 0); }

  void on_tokens(std::uint32_t choice, const std::vector<generated_token>& tokens,
                 finish_reason reason) override {
    generation_event next = event(generation_event::kind::tokens);
    next.choice = choice;
    next.tokens = tokens;
    next.reason = reason;
    const std::size_t bytes = openai::bytes_of(tokens);
    queue_->push(std::move(next), bytes);
  }

  void on_cached_tokens(std::uint32_t num_tokens) override {
    generation_event next = event(generation_event::kind::cached_tokens);
    next.num_cached = num_tokens;
    queue_->push(std::move(next), 0);
  }

  void on_prompt_logprobs(const std::vector<generated_token>& tokens) override {
    generation_event next = event(generation_event::kind::prompt_logprobs);
    next.tokens = tokens;
    // Not counted: they come once, and the context bounds them.
    queue_->push(std::move(next), 0);
  }

  void on_error(ec code, const std::string& text) override {
    generation_event next = event(generation_event::kind::error);
    next.code = code;
    next.text = text;
    queue_->push(std::move(next), 0);
  }

 private:
  generation_event event(generation_event::kind what) const {
    generation_event next;
    next.what = what;
    next.job = job_;
    next.at = clock::now();
    return next;
  }

  std::shared_ptr<mailbox> queue_;
  std::uint32_t job_;
};

event_queue::event_queue(const asio::any_io_executor& executor, std::size_t max_bytes)
    : alarm_(std::make_shared<asio::steady_timer>(executor)),
      mailbox_(std::make_shared<mailbox>(executor, alarm_, max_bytes)) {}

event_queue::~event_queue() {
  mailbox_->close();
}

std::shared_ptr<generation_listener> event_queue::listener(std::uint32_t job) const {
  return std::make_shared<job_listener>(mailbox_, job);
}

void event_queue::wake() {
  woken_ = true;
  alarm_->cancel();
}

bool event_queue::overflowed() const {
  return mailbox_->overflowed();
}

task<std::vector<generation_event>> event_queue::take(clock::time_point deadline) {
  std::vector<generation_event> events;
  while (!mailbox_->take(events) && !woken_ && clock::now() < deadline) {
    alarm_->expires_at(deadline);
    boost::system::error_code cancelled;
    co_await alarm_->async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  co_return events;
}

} // namespace troupe::http
