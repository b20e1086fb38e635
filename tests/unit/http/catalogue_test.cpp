// The catalogue of metrics, and the registry that uses it.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include "services/metrics/expert_row_counts.hpp"
#include "services/metrics/process_figures.hpp"
#include "services/metrics/registry.hpp"
#include "services/metrics/state_disk_watch.hpp"

namespace troupe::metrics {

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

double value_of(const std::string& page, const std::string& series) {
  const auto at = ("\n" + page).find("\n" + series + " ");
  EXPECT_NE(at, std::string::npos) << series << " is not on the page";
  return at == std::string::npos ? -1 : std::stod(page.substr(at + series.size() + 1));
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

} // namespace

TEST(metrics_catalogue, names_say_what_prometheus_wants) {
  for (const process_families& one : catalogue())
    for (const family_spec& spec : one.families) {
      EXPECT_EQ(ends_with(spec.name, "_total"), spec.type == family_type::counter) << spec.name;
      EXPECT_EQ(spec.edges != nullptr, spec.type == family_type::histogram) << spec.name;
      EXPECT_NE(std::string(spec.help), "") << spec.name;
    }
}

TEST(metrics_catalogue, labels_are_none_that_targets_have) {
  const std::set<std::string> of_targets{"instance", "job", "le", "model_name", "process", "role"};
  for (const process_families& one : catalogue())
    for (const family_spec& spec : one.families)
      for (const label_spec& label : spec.labels)
        EXPECT_EQ(of_targets.count(label.name), 0U)
            << spec.name << ": Prometheus would rename " << label.name;
}

TEST(metrics_registry, refuses_what_the_catalogue_does_not_have) {
  registry families;
  EXPECT_THROW(families.counter("things_total"), std::logic_error);
  EXPECT_THROW(families.gauge("expert_steps_total"), std::logic_error) << "of another type";
  EXPECT_THROW(families.counter("expert_steps_total", {{"layer", "1"}}), std::logic_error) << "no such label";
  EXPECT_THROW(families.counter("expert_rows_total", {{"layer", "1"}}), std::logic_error)
      << "a label is missing";
  EXPECT_NO_THROW(families.counter("expert_rows_total", {{"layer", "1"}, {"expert", "2"}}));
}

TEST(metrics_registry, known_series_are_there_from_the_start) {
  registry families{"troupe_", {{"model_name", "m"}}};
  families.start("gateway");
  const std::string page = families.text();
  EXPECT_EQ(value_of(page, R"(troupe_http_connections_refused_total{model_name="m",reason="peer"})"), 0);
  EXPECT_EQ(value_of(page, R"(troupe_generation_tokens_total{model_name="m"})"), 0);
  EXPECT_THAT(page, Not(HasSubstr("troupe_key_requests_total"))) << "there are no keys";
  EXPECT_THAT(page, Not(HasSubstr("expert_steps_total"))) << "of another process";
}

TEST(metrics_registry, an_empty_constant_label_is_none) {
  registry families{"troupe_", {{"model_name", ""}}};
  families.counter("expert_steps_total");
  EXPECT_THAT(families.text(), HasSubstr("\ntroupe_expert_steps_total 0\n"));
}

TEST(metrics_registry, vllms_names_are_shown_beside_ours) {
  for (const char* prefix : {"vllm:", "troupe_"}) {
    registry families{prefix};
    families.histogram("iteration_tokens").Observe(3);
    const std::string page = families.text();
    EXPECT_EQ(value_of(page, std::string(prefix) + "iteration_tokens_sum"), 3);
    const std::string alias = std::string(prefix) + "iteration_tokens_total_sum";
    if (std::string(prefix) == "vllm:")
      EXPECT_EQ(value_of(page, alias), 3);
    else
      EXPECT_THAT(page, Not(HasSubstr(alias)));
  }
}

TEST(metrics_registry, reads_before_each_page) {
  registry families;
  int looks = 0;
  families.read_before_text([&] { families.gauge("expert_queue_rows").Set(++looks); });
  EXPECT_EQ(value_of(families.text(), "troupe_expert_queue_rows"), 1);
  EXPECT_EQ(value_of(families.text(), "troupe_expert_queue_rows"), 2);
}

TEST(metrics_registry, counters_of_others_never_fall) {
  registry families;
  auto& counter = families.counter("transport_bytes_sent_total");
  raise_to(counter, 7);
  raise_to(counter, 5);
  EXPECT_EQ(counter.Value(), 7);
}

TEST(process_figures, are_those_of_this_process) {
  const auto families = make_registry("troupe_", "m");
  show_build(*families, "cpu/float32");
  const std::string page = families->text();
  const std::string label = R"({model_name="m"})";
  EXPECT_THAT(page, HasSubstr(R"(numerics="cpu/float32")"));
  EXPECT_THAT(page, HasSubstr("\ntroupe_build_info{"));
  EXPECT_GT(value_of(page, "process_resident_memory_bytes" + label), 1e6);
  EXPECT_GE(value_of(page, "process_virtual_memory_bytes" + label),
            value_of(page, "process_resident_memory_bytes" + label));
  EXPECT_GE(value_of(page, "process_threads" + label), 1);
  EXPECT_GE(value_of(page, "process_open_fds" + label), 3);
  EXPECT_GT(value_of(page, "process_max_fds" + label), value_of(page, "process_open_fds" + label));
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const double start = value_of(page, "process_start_time_seconds" + label);
  EXPECT_LE(start, now + 2); // the kernel gives its own start in whole seconds
  EXPECT_GT(start, now - 24 * 3600);
}

TEST(process_figures, count_descriptors_and_threads) {
  std::thread([] {}).join(); // the thread sanitizer starts one of its own with the first
  const process_figures before = read_process_figures();
  const std::ifstream one_more("/proc/self/stat");
  EXPECT_EQ(read_process_figures().open_fds, before.open_fds + 1);
  std::atomic<bool> stop{false};
  std::thread another([&stop] { stop.wait(false); });
  EXPECT_EQ(read_process_figures().threads, before.threads + 1);
  stop = true;
  stop.notify_all();
  another.join();
}

TEST(expert_row_counts, few_experts_are_shown_one_by_one) {
  registry families;
  expert_row_counts rows{4};
  rows.add(1, std::vector<std::uint64_t>{5, 0, 2});
  rows.add(1, std::vector<std::uint64_t>{1, 0, 0});
  rows.show(families);
  const std::string page = families.text();
  EXPECT_EQ(value_of(page, R"(troupe_expert_rows_total{expert="0",layer="1"})"), 6);
  EXPECT_EQ(value_of(page, R"(troupe_expert_rows_total{expert="2",layer="1"})"), 2);
  EXPECT_EQ(value_of(page, R"(troupe_expert_layer_rows_total{layer="1"})"), 8);
  EXPECT_THAT(page, Not(HasSubstr(R"(expert="1")"))) << "it has computed nothing";
  EXPECT_THAT(page, Not(HasSubstr(R"(layer="0")")));
}

TEST(expert_row_counts, of_many_experts_the_busiest_of_each_layer_are_shown) {
  constexpr std::size_t limit = 40;
  registry families;
  expert_row_counts rows{limit};
  std::vector<std::uint64_t> of_layer(100);
  for (std::size_t expert = 0; expert < of_layer.size(); ++expert)
    of_layer[expert] = expert + 1; // the last is the busiest
  rows.add(0, of_layer);
  rows.show(families);
  const std::string first = families.text();
  EXPECT_EQ(value_of(first, R"(troupe_expert_layer_rows_total{layer="0"})"), 5050);
  EXPECT_EQ(value_of(first, R"(troupe_expert_rows_total{expert="99",layer="0"})"), 100);
  EXPECT_EQ(value_of(first, R"(troupe_expert_rows_total{expert="92",layer="0"})"), 93);
  EXPECT_THAT(first, Not(HasSubstr(R"(expert="91")")));

  std::vector<std::uint64_t> shifted(100, 0);
  shifted[0] = 1000;
  rows.add(0, shifted);
  rows.show(families);
  const std::string second = families.text();
  EXPECT_EQ(value_of(second, R"(troupe_expert_rows_total{expert="0",layer="0"})"), 1001)
      << "it has become busy";
  EXPECT_EQ(value_of(second, R"(troupe_expert_rows_total{expert="92",layer="0"})"), 93)
      << "counters do not go away";

  for (std::size_t layer = 1; layer < 20; ++layer)
    rows.add(layer, of_layer);
  rows.show(families);
  const std::string third = families.text();
  std::size_t num_series = 0;
  for (auto at = third.find("troupe_expert_rows_total{"); at != std::string::npos;
       at = third.find("troupe_expert_rows_total{", at + 1))
    ++num_series;
  EXPECT_EQ(num_series, limit);
  EXPECT_EQ(value_of(third, R"(troupe_expert_layer_rows_total{layer="19"})"), 5050) << "sums are complete";
}

TEST(state_disk_watch, tells_the_room_of_a_directory) {
  auto families = std::make_shared<registry>();
  const auto find = [&] { return families->text().find("troupe_state_directory_free_bytes "); };
  {
    const state_disk_watch watch{std::filesystem::temp_directory_path().string(), families,
                                 std::chrono::milliseconds{1}};
    while (find() == std::string::npos)
      std::this_thread::yield(); // its thread reads once before anything else
  }
  const std::string page = families->text();
  EXPECT_GT(value_of(page, "troupe_state_directory_free_bytes"), 0);
  EXPECT_GE(value_of(page, "troupe_state_directory_size_bytes"),
            value_of(page, "troupe_state_directory_free_bytes"));
}

TEST(state_disk_watch, a_directory_that_is_not_there_has_no_room_and_no_lack) {
  auto families = std::make_shared<registry>();
  { const state_disk_watch watch{"/nowhere/at/all", families, std::chrono::milliseconds{1}}; }
  EXPECT_EQ(families->text().find("state_directory"), std::string::npos);
}

} // namespace troupe::metrics
