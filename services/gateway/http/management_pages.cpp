#include "services/gateway/http/management_pages.hpp"

#include <string_view>

#include "services/gateway/http/request_id.hpp"
#include "services/gateway/http/routes.hpp"

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace troupe::http {

namespace {

/// Null: there is no such page.
const route* page_at(const route_table& routes, std::string_view path) {
  for (const route& known : routes)
    if (known.path == path && !known.post && (known.who != callers::clients || path == "/version"))
      return &known;
  return nullptr;
}

/// A GET whose answer is kept, for endpoints that send whole answers.
class kept_answer final : public exchange {
 public:
  kept_answer(boost::asio::any_io_executor executor, std::string path, std::string query)
      : executor_(std::move(executor)) {
    incoming_.method = "GET";
    incoming_.path = std::move(path);
    incoming_.query = std::move(query);
    incoming_.id = draw_request_id();
  }

  const request& incoming() const override { return incoming_; }

  access_record& record() override { return record_; }

  void drop_body() override {}

  boost::asio::any_io_executor executor() override { return executor_; }

  task<void> send(response answer) override {
    answer_ = std::move(answer);
    co_return;
  }

  task<bool> begin_stream(std::string /*content_type*/, header_list /*headers*/) override { co_return false; }

  task<bool> write(std::string /*more*/) override { co_return false; }

  task<void> end_stream() override { co_return; }

  void abandon() override {}

  void watch(std::function<void()> /*ended*/) override {}

  task<void> unwatch() override { co_return; }

  bool gone() const override { return false; }

  bool too_slow() const override { return false; }

  bool time_is_up() const override { return false; }

  response take() { return std::move(answer_); }

 private:
  boost::asio::any_io_executor executor_;
  request incoming_;
  access_record record_;
  response answer_;
};

} // namespace

boost::asio::awaitable<metrics::page> management_pages::answer(std::string path, std::string query) {
  metrics::page result;
  const route* where = page_at(routes_, path);
  if (where == nullptr) {
    result.status = 404;
    result.body = "try /health, /metrics, /ready, /version or /cluster\n";
    co_return result;
  }
  const auto executor = co_await boost::asio::this_coro::executor;
  kept_answer client{executor, std::move(path), std::move(query)};
  co_await handle(client, shared_, *where);
  response answer = client.take();
  shared_.metrics->responded(where->path, answer.status);
  result.status = answer.status;
  result.content_type = std::move(answer.content_type);
  result.body = std::move(answer.body);
  result.headers = std::move(answer.headers);
  co_return result;
}

} // namespace troupe::http
