// Rates and quantiles of the interval between two pages of metrics.
#include "services/top/interval_figures.hpp"

#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace troupe::top {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A page with a counter, and a histogram by its cumulative counts up to 0.1, 1 and without end.
metrics_text page(int counter, int up_to_tenth, int up_to_one, int all) {
  return metrics_text("troupe_generation_tokens_total " + std::to_string(counter)
                      + "\ntroupe_h_bucket{le=\"0.1\"} " + std::to_string(up_to_tenth)
                      + "\ntroupe_h_bucket{le=\"1\"} " + std::to_string(up_to_one)
                      + "\ntroupe_h_bucket{le=\"+Inf\"} " + std::to_string(all) + "\n");
}

TEST(interval_figures, a_counter_that_has_become_smaller_has_begun_again) {
  EXPECT_EQ(increase(10, 14), 4);
  EXPECT_EQ(increase(10, 10), 0);
  EXPECT_EQ(increase(10, 3), 3);
}

TEST(interval_figures, rates_are_by_the_second) {
  EXPECT_EQ(rate(page(10, 0, 0, 0), page(30, 0, 0, 0), "generation_tokens_total", 4), 5);
  EXPECT_EQ(rate(page(10, 0, 0, 0), page(8, 0, 0, 0), "generation_tokens_total", 2), 4);
  EXPECT_FALSE(rate(page(1, 0, 0, 0), page(2, 0, 0, 0), "nothing_total", 1));
  EXPECT_FALSE(rate(metrics_text(), page(2, 0, 0, 0), "generation_tokens_total", 1));
}

TEST(interval_figures, observations_are_those_that_have_come_since) {
  const auto seen = observations(page(0, 5, 7, 8), page(0, 6, 11, 13), "h");
  EXPECT_EQ(seen, (std::vector<bucket>{{0.1, 1}, {1, 3}, {infinity, 1}}));
}

TEST(interval_figures, observations_of_a_process_that_has_begun_again_are_all_of_it) {
  // The first bucket has more than before, and all together fewer.
  const auto seen = observations(page(0, 1, 50, 50), page(0, 4, 6, 7), "h");
  EXPECT_EQ(seen, (std::vector<bucket>{{0.1, 4}, {1, 2}, {infinity, 1}}));
}

TEST(interval_figures, one_bucket_that_has_become_smaller_tells_of_a_new_process) {
  // All together are more than before, and so is the first bucket.
  const auto seen = observations(page(0, 1, 7, 8), page(0, 3, 6, 10), "h");
  EXPECT_EQ(seen, (std::vector<bucket>{{0.1, 3}, {1, 3}, {infinity, 4}}));
}

TEST(interval_figures, one_counter_that_has_become_smaller_tells_of_a_new_process) {
  const auto pair = [](const char* first, const char* second) {
    return metrics_text(std::string("generation_tokens_total 0\n") + first + second);
  };
  const auto before = pair("x{l=\"a\"} 5\n", "x{l=\"b\"} 1\n");
  EXPECT_EQ(rate(before, pair("x{l=\"a\"} 6\n", "x{l=\"b\"} 4\n"), "x", 2), 2);
  EXPECT_EQ(rate(before, pair("x{l=\"a\"} 2\n", "x{l=\"b\"} 8\n"), "x", 2), 5)
      << "more together, fewer of one";
  EXPECT_EQ(rate(before, pair("x{l=\"b\"} 8\n", ""), "x", 2), 4) << "one has gone";
  EXPECT_EQ(rate(before, pair("x{l=\"a\"} 5\n", "x{l=\"b\"} 1\nx{l=\"c\"} 4\n"), "x", 2), 2)
      << "one has come";
}

TEST(interval_figures, a_page_may_say_that_its_process_is_new) {
  const auto page_since = [](int start, int tokens) {
    return metrics_text("generation_tokens_total " + std::to_string(tokens) + "\nh_bucket{le=\"+Inf\"} "
                        + std::to_string(tokens) + "\nprocess_start_time_seconds " + std::to_string(start)
                        + "\n");
  };
  EXPECT_EQ(rate(page_since(1, 10), page_since(1, 14), "generation_tokens_total", 2), 2);
  EXPECT_EQ(rate(page_since(1, 10), page_since(2, 14), "generation_tokens_total", 2), 7);
  EXPECT_EQ(observations(page_since(1, 10), page_since(2, 14), "h"), (std::vector<bucket>{{infinity, 14}}));
}

TEST(interval_figures, observations_of_several_series_are_added) {
  const std::string both =
      "generation_tokens_total 0\nh_bucket{m=\"a\",le=\"1\"} 2\nh_bucket{m=\"b\",le=\"1\"} 3\n"
      "h_bucket{m=\"a\",le=\"+Inf\"} 2\nh_bucket{m=\"b\",le=\"+Inf\"} 4\n";
  EXPECT_EQ(observations({}, metrics_text(both), "h"), (std::vector<bucket>{{1, 5}, {infinity, 1}}));
  EXPECT_TRUE(observations(metrics_text(both), metrics_text(both), "other").empty());
}

TEST(interval_figures, quantiles_are_linear_within_a_bucket) {
  const std::vector<bucket> buckets{{1, 10}, {2, 0}, {4, 10}, {infinity, 0}};
  EXPECT_DOUBLE_EQ(quantile(buckets, 0.25).value(), 0.5);
  EXPECT_DOUBLE_EQ(quantile(buckets, 0.5).value(), 1);
  EXPECT_DOUBLE_EQ(quantile(buckets, 0.75).value(), 3);
  EXPECT_DOUBLE_EQ(quantile(buckets, 1).value(), 4);
}

TEST(interval_figures, quantiles_beyond_the_last_edge_are_that_edge) {
  EXPECT_DOUBLE_EQ(quantile({{1, 1}, {infinity, 9}}, 0.99).value(), 1);
  EXPECT_DOUBLE_EQ(quantile({{infinity, 9}}, 0.5).value(), 0);
}

TEST(interval_figures, nothing_has_no_quantile) {
  EXPECT_FALSE(quantile({}, 0.5));
  EXPECT_FALSE(quantile({{1, 0}, {infinity, 0}}, 0.5));
}

} // namespace
} // namespace troupe::top
