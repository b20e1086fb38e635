// The lines of a screen, and their length.
#include "services/top/screen.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::top {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

overview some_figures(std::size_t num_workers) {
  overview figures;
  figures.is_ready = true;
  figures.scheduler = "term 3";
  figures.running = 12;
  figures.waiting = 3;
  figures.ended_per_second = 1.5;
  figures.new_tokens_per_second = 233.14;
  figures.first_token = {0.0123, 0.08};
  figures.between_tokens = {0.0005, std::nullopt};
  figures.kv_used = 1024;
  figures.kv_capacity = 4096;
  figures.prefix_hits = 0.625;
  figures.planner = "planner on, no moves";
  figures.imbalance = 1.084;
  for (std::size_t i = 0; i < 8; ++i)
    figures.hottest.push_back({i, 17, 4.2, {"expert-0", "expert-1"}});
  for (std::size_t i = 0; i < num_workers; ++i) {
    figures.workers.push_back(
        {"expert-" + std::to_string(i), "expert", "ok", "2", 5, 0.25, {}, {}, "96 experts"});
  }
  return figures;
}

const heading about{"http://127.0.0.1:8000", std::chrono::seconds{1}, {}};

TEST(top_screen, says_all_there_is) {
  const auto lines = screen_lines(about, some_figures(2), {});
  EXPECT_THAT(lines,
              ElementsAre("troupe top - http://127.0.0.1:8000 - figures of 1.0 s",                        //
                          "cluster     ready, term 3",                                                    //
                          "requests    12 running, 3 waiting, 1.5 choices ended/s, - refused/s",          //
                          "tokens/s    - prompt, 233.1 new",                                              //
                          "first token p50 12.3 ms, p99 80.0 ms",                                         //
                          "between     p50 500 us, p99 -",                                                //
                          "KV cache    [#####---------------] 25%, 1024 of 4096 tokens; prefix hits 62%", //
                          "placement   imbalance 1.08, planner on, no moves",                             //
                          StartsWith("hottest     L0/E17 4.2x on expert-0+expert-1, L1/E17"),             //
                          "",                                                                             //
                          "ROLE    WORKER    STATE  RUNNING  WAITING  LOAD  MEMORY",                      //
                          "expert  expert-0  ok           2        5   25%  96 experts",                  //
                          "expert  expert-1  ok           2        5   25%  96 experts"));
}

TEST(top_screen, fits_80_by_24) {
  const auto lines = screen_lines(about, some_figures(40), {80, 24});
  EXPECT_EQ(lines.size(), 24U);
  EXPECT_TRUE(std::all_of(lines.begin(), lines.end(), [](const auto& line) { return line.size() <= 80; }));
  EXPECT_EQ(lines.back(), "and 28 more; 'troupe status' shows all") << "12 of 40 are shown";
  EXPECT_THAT(lines[8], Not(HasSubstr("L2"))) << "no part of an expert that does not fit";
  EXPECT_EQ(screen_lines(about, some_figures(13), {80, 24}).back(),
            "expert  expert-12  ok           2        5   25%  96 experts")
      << "all fit";
}

TEST(top_screen, fits_a_window_that_is_too_small_for_anything) {
  for (const std::size_t rows : {1U, 2U, 11U, 12U}) {
    const auto lines = screen_lines(about, some_figures(9), {7, rows});
    EXPECT_LE(lines.size(), rows);
    EXPECT_EQ(lines[0], "troupe ");
  }
}

TEST(top_screen, says_that_what_it_shows_is_old) {
  heading trouble = about;
  trouble.trouble = "http://127.0.0.1:8000: Connection refused";
  EXPECT_EQ(screen_lines(trouble, some_figures(1), {})[1],
            "http://127.0.0.1:8000: Connection refused; what follows is older");
  EXPECT_THAT(screen_lines(trouble, {80, 24}), Contains("http://127.0.0.1:8000: Connection refused"));
  EXPECT_THAT(screen_lines(about, {80, 24}), Contains("waiting for the first figures"));
}

TEST(top_screen, a_name_cannot_move_the_cursor) {
  auto figures = some_figures(2);
  figures.workers[0].name = "e\x1b[2J\n\xc2\x9b"
                            "1";
  figures.scheduler = "term 3\r\x07";
  heading trouble = about;
  trouble.trouble = "status 503 \x1b]0;title";
  for (const screen_size size : {screen_size{}, screen_size{80, 24}}) {
    const auto lines = screen_lines(trouble, figures, size);
    EXPECT_THAT(lines, Contains(StartsWith("expert  e?[2J??1  ok ")));
    EXPECT_THAT(lines, Contains("cluster     ready, term 3??"));
    EXPECT_THAT(lines, Contains(StartsWith("status 503 ?]0;title")));
    for (const std::string& line : lines)
      EXPECT_TRUE(std::none_of(line.begin(), line.end(), [](char c) { return c > 0 && c < ' '; })) << line;
  }
}

TEST(top_screen, cuts_between_characters) {
  auto figures = some_figures(1);
  figures.workers[0].name = "\u00fc\u20ac\U0001f600-\u00e4";
  const auto lines = screen_lines(about, figures, {11, 24});
  EXPECT_EQ(lines.back(), "expert  \u00fc\u20ac\U0001f600") << "eleven columns, each of one character";
  figures.workers[0].name = "\xff\xe2\x82"; // a character that ends too early, and no beginning of one
  EXPECT_EQ(screen_lines(about, figures, {11, 24}).back(), "expert  ???");
}

TEST(top_screen, says_which_pages_could_not_be_read) {
  auto figures = some_figures(1);
  figures.not_read = {"placement: it is away", "history: it is away, too"};
  const auto lines = screen_lines(about, figures, {});
  EXPECT_THAT(lines, Contains("not read    placement: it is away"));
  EXPECT_THAT(lines, Contains("not read    history: it is away, too"));
  EXPECT_THAT(lines, Contains(StartsWith("tokens/s    - prompt, 233.1 new"))) << "the others are shown";
}

TEST(top_screen, has_dashes_for_what_is_not_known) {
  overview nothing;
  nothing.scheduler = "term 1";
  const auto lines = screen_lines(about, nothing, {});
  EXPECT_THAT(lines, Contains("KV cache    -"));
  EXPECT_THAT(lines, Contains("hottest     -"));
  EXPECT_THAT(lines, Contains("first token p50 -, p99 -"));
  EXPECT_THAT(lines, Contains("cluster     NOT READY, term 1"));
  EXPECT_THAT(lines, Contains("requests    - running, - waiting, - choices ended/s, - refused/s"));
}

TEST(top_screen, has_columns_for_processes_where_they_are_known) {
  auto figures = some_figures(2);
  figures.workers[0].processors = 1.25;
  figures.workers[0].resident_bytes = 3.5 * 1024 * 1024 * 1024;
  const auto lines = screen_lines(about, figures, {});
  const auto begin = lines.end() - 3;
  EXPECT_EQ(begin[0], "ROLE    WORKER    STATE  RUNNING  WAITING  LOAD  CPUS  RESIDENT  MEMORY");
  EXPECT_EQ(begin[1], "expert  expert-0  ok           2        5   25%  1.25   3.5 GiB  96 experts");
  EXPECT_EQ(begin[2], "expert  expert-1  ok           2        5   25%     -         -  96 experts");
}

TEST(top_screen, durations_have_a_unit_that_fits) {
  EXPECT_EQ(duration_text(0.00095), "950 us");
  EXPECT_EQ(duration_text(0.001), "1.0 ms");
  EXPECT_EQ(duration_text(4.556), "4.56 s");
  EXPECT_EQ(duration_text(std::nullopt), "-");
}

} // namespace
} // namespace troupe::top
