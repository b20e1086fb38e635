#include "load/prompt_set.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "services/options/option_parser.hpp"

namespace troupe::load {
namespace {

TEST(prompt_set, is_the_same_for_the_same_seed_and_keeps_to_its_ranges) {
  auto a = make_prompts({}, 500, 3, {8, 128}, {1, 16}, 100);
  auto b = make_prompts({}, 500, 3, {8, 128}, {1, 16}, 100);
  auto c = make_prompts({}, 500, 4, {8, 128}, {1, 16}, 100);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), [](const prompt& x, const prompt& y) {
    return x.tokens == y.tokens && x.max_tokens == y.max_tokens;
  }));
  EXPECT_NE(a[0].tokens, c[0].tokens);
  for (const auto& p : a) {
    EXPECT_GE(p.tokens.size(), 8U);
    EXPECT_LE(p.tokens.size(), 128U);
    EXPECT_GE(p.max_tokens, 1U);
    EXPECT_LE(p.max_tokens, 16U);
    EXPECT_TRUE(
        std::all_of(p.tokens.begin(), p.tokens.end(), [](std::int32_t t) { return t >= 0 && t < 100; }));
  }
}

TEST(prompt_set, draws_from_texts_when_there_are_some) {
  auto prompts = make_prompts({"a", "b"}, 50, 1, {1, 1}, {5, 5}, 10);
  std::size_t a = 0;
  for (const auto& p : prompts) {
    EXPECT_TRUE(p.tokens.empty());
    a += p.text == "a" ? 1U : 0U;
  }
  EXPECT_GT(a, 10U);
  EXPECT_LT(a, 40U);
}

TEST(domains, are_files_and_folders_of_files) {
  namespace fs = std::filesystem;
  const auto root = fs::path(::testing::TempDir()) / "prompt_set_domains";
  fs::remove_all(root);
  fs::create_directories(root / "folder");
  fs::create_directories(root / "empty");
  for (const auto* name : {"folder/b.jsonl", "folder/a.jsonl", "c.jsonl"})
    std::ofstream(root / name) << R"({"prompt": "of )" << name << "\"}\n";
  std::ofstream(root / "folder" / "README.md") << "no prompts";
  const auto found = read_domains({(root / "folder").string(), (root / "c.jsonl").string()});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_EQ(found[0].texts, std::vector<std::string>{"of folder/a.jsonl"});
  EXPECT_EQ(found[1].name, "b");
  EXPECT_EQ(found[2].name, "c");
  const auto refusal_of = [&](std::vector<std::string> paths) {
    try {
      read_domains(paths);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal_of({(root / "empty").string()}), "no <domain>.jsonl in " + (root / "empty").string());
  EXPECT_EQ(refusal_of({(root / "missing").string()}), "cannot read " + (root / "missing").string());
  EXPECT_EQ(refusal_of({(root / "c.jsonl").string(), (root / "c.jsonl").string()}),
            (root / "c.jsonl").string() + ": there is a domain c already");
}

TEST(domains, take_turns_when_they_are_interleaved) {
  const auto list = [](std::string text, std::size_t count) {
    return std::vector<prompt>(count, prompt{std::move(text), {}, 1});
  };
  std::string order;
  for (const auto& p : interleaved({list("a", 3), list("b", 1), list("c", 2)}))
    order += p.text;
  EXPECT_EQ(order, "abcaca");
}

// Variance (1/rate)² / burstiness of the gaps. The bounds are some five standard errors wide.
TEST(arrivals, have_the_variance_of_their_gamma_distribution_and_their_mean_exactly) {
  for (double burstiness : {0.5, 1.0, 4.0}) {
    constexpr std::uint32_t n = 20000;
    auto times = arrival_times(n, 10.0, burstiness, 11);
    ASSERT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_GT(times.front(), 0.0);
    EXPECT_DOUBLE_EQ(times.back(), 2000.0);
    double squares = 0.0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      double d = times[i] - (i == 0 ? 0.0 : times[i - 1]) - 0.1;
      squares += d * d;
    }
    double deviation = 0.1 / std::sqrt(burstiness);
    EXPECT_NEAR(squares / n / (deviation * deviation), 1.0, 0.15) << burstiness;
  }
}

TEST(arrivals, are_regular_where_burstiness_is_infinite) {
  EXPECT_EQ(arrival_times(4, 2.0, std::numeric_limits<double>::infinity(), 1),
            (std::vector{0.5, 1.0, 1.5, 2.0}));
}

// With these seeds the only gap is 0, or too small for a double to scale.
TEST(arrivals, come_at_once_where_every_gap_underflows) {
  EXPECT_EQ(arrival_times(1, 1.0, 0.01, 4098), std::vector<double>(1, 0.0));
  auto times = arrival_times(1, 1.0, 0.01, 4026);
  EXPECT_GT(times[0], 0.0);
  EXPECT_LT(times[0], 1e-300);
  EXPECT_DOUBLE_EQ(arrival_times(1, 1.0, 0.01, 1)[0], 1.0);
}

TEST(arrivals, come_all_at_once_without_a_rate) {
  EXPECT_EQ(arrival_times(3, 0.0, 1.0, 1), std::vector<double>(3, 0.0));
  EXPECT_EQ(arrival_times(3, std::numeric_limits<double>::infinity(), 1.0, 1), std::vector<double>(3, 0.0));
}

TEST(length_range, is_a_number_or_two) {
  EXPECT_EQ(parse_range("7", "--x").high, 7U);
  EXPECT_EQ(parse_range("2:9", "--x").low, 2U);
  for (const char* bad : {"", "0", "9:2", "1:", ":3", "a", "1:2:3"})
    EXPECT_THROW(parse_range(bad, "--x"), option_error) << bad;
}

} // namespace
} // namespace troupe::load
