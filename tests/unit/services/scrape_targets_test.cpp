#include "services/troupe/scrape_targets.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace troupe {
namespace {

TEST(ready_line, has_metrics_or_none) {
  const ready_line plain("127.0.0.1:7000");
  EXPECT_EQ(plain.endpoint, "127.0.0.1:7000");
  EXPECT_EQ(plain.metrics, "");
  EXPECT_EQ(plain.text(), "127.0.0.1:7000");
  const ready_line scraped("127.0.0.1:7000 [::1]:7080");
  EXPECT_EQ(scraped.endpoint, "127.0.0.1:7000");
  EXPECT_EQ(scraped.metrics, "[::1]:7080");
  EXPECT_EQ(scraped.text(), "127.0.0.1:7000, metrics at http://[::1]:7080/metrics");
}

TEST(scrape_targets, are_a_file_for_prometheus) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "prometheus-targets.json";
  scrape_targets targets(file);
  targets.add("expert", "expert-0", "127.0.0.1:1");
  targets.add("gateway", "gateway-0", "127.0.0.1:8000");
  targets.add("expert", "expert-0", "127.0.0.1:2"); // it was started again
  targets.write();
  std::ifstream in(file);
  const auto groups = nlohmann::json::parse(in);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0],
            nlohmann::json::parse(
                R"({"targets": ["127.0.0.1:2"], "labels": {"role": "expert", "process": "expert-0"}})"));
  EXPECT_EQ(groups[1]["labels"]["role"], "gateway");
  std::filesystem::remove(file);
}

TEST(scrape_targets, a_folder_that_is_not_there_is_named) {
  const scrape_targets targets("/nowhere/at/all.json");
  EXPECT_THROW(targets.write(), std::runtime_error);
}

} // namespace
} // namespace troupe
