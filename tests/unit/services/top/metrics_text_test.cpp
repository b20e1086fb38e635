// Reading a page of metrics.
#include "services/top/metrics_text.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace troupe::top {
namespace {

TEST(metrics_text, has_names_labels_and_values) {
  const metrics_text page(R"(# HELP troupe_a Something
# TYPE troupe_a counter
troupe_a{model_name="m",reason="a \"b\" \\ \n"} 3
troupe_a{} 4.5e2 1700000000
troupe_b +Inf
)");
  ASSERT_EQ(page.all().size(), 3U);
  EXPECT_EQ(page.all()[0].name, "troupe_a");
  EXPECT_EQ(page.all()[0].labels.at("reason"), "a \"b\" \\ \n");
  EXPECT_EQ(page.all()[0].labels.at("model_name"), "m");
  EXPECT_EQ(page.all()[0].value, 3);
  EXPECT_EQ(page.all()[1].value, 450);
  EXPECT_TRUE(page.all()[1].labels.empty());
  EXPECT_TRUE(std::isinf(page.all()[2].value));
}

TEST(metrics_text, leaves_out_what_it_cannot_read) {
  for (const char* line : {"a", "a{", "a{b=\"c", "a{b=\"c\"", "a{b=\"c\"}", "a{b} 1", "a b", "{} 1", " 1"})
    EXPECT_TRUE(metrics_text(line).all().empty()) << line;
}

TEST(metrics_text, has_names_without_a_prefix) {
  const metrics_text page("troupe_generation_tokens_total 1\nprocess_start_time_seconds 17.5\n");
  EXPECT_EQ(page.exactly("process_start_time_seconds"), 17.5);
  EXPECT_FALSE(page.exactly("generation_tokens_total"));
}

TEST(metrics_text, sums_families_whatever_the_prefix) {
  for (const std::string prefix : {"troupe_", "vllm:", ""}) {
    const metrics_text page(prefix + "generation_tokens_total 1\n" + prefix + "x{l=\"1\"} 2\n" + prefix
                            + "x{l=\"2\"} 3\n" + prefix + "more_x 10\n");
    EXPECT_EQ(page.sum("x"), 5) << prefix;
    EXPECT_EQ(page.of("x").size(), 2U);
    EXPECT_FALSE(page.sum("y"));
  }
}

} // namespace
} // namespace troupe::top
