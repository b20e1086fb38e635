// Events that wait for a stream's reader are bounded; those that were read no longer count.
#include "services/gateway/http/event_queue.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

namespace troupe::http {
namespace {

using namespace std::chrono_literals;

const std::vector<generated_token> six_tokens(6);

constexpr std::size_t room = 10 * sizeof(generated_token);

TEST(event_queue, who_reads_all_may_be_sent_any_amount) {
  boost::asio::io_context context;
  event_queue queue{context.get_executor(), room};
  const auto listener = queue.listener(0);
  std::size_t num_read = 0;
  const auto reader = [&]() -> task<void> {
    for (int round = 0; round < 100; ++round) {
      listener->on_tokens(0, six_tokens, finish_reason::none);
      for (const auto& event : co_await queue.take(event_queue::clock::now() + 1h))
        num_read += event.tokens.size();
    }
  };
  boost::asio::co_spawn(context, reader, boost::asio::detached);
  context.run();
  EXPECT_EQ(num_read, 600U);
  EXPECT_FALSE(queue.overflowed());
}

TEST(event_queue, who_does_not_read_is_sent_no_more_than_there_is_room_for) {
  boost::asio::io_context context;
  event_queue queue{context.get_executor(), room};
  const auto listener = queue.listener(0);
  listener->on_tokens(0, six_tokens, finish_reason::none);
  EXPECT_FALSE(queue.overflowed());
  listener->on_tokens(0, six_tokens, finish_reason::none);
  EXPECT_TRUE(queue.overflowed());
}

} // namespace
} // namespace troupe::http
