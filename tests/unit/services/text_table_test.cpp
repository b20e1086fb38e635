// Tables of text for people, with untrusted text in them.
#include "services/client/text_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/client/terminal_text.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;

TEST(text_table, has_columns_as_wide_as_their_widest_cell) {
  EXPECT_THAT(table_lines({column_kind::text, column_kind::number, column_kind::text},
                          {{"NAME", "N", "LAST"}, {"a", "100", "b"}, {"longer", "5", ""}}),
              ElementsAre("NAME      N  LAST", //
                          "a       100  b",    //
                          "longer    5"));
}

TEST(text_table, leaves_out_a_column_that_nobody_fills) {
  EXPECT_EQ(
      table_text({column_kind::text, column_kind::number, column_kind::text}, {{"", "", "A"}, {"", "", "b"}}),
      "A\nb\n");
}

TEST(text_table, counts_characters_and_not_bytes) {
  EXPECT_THAT(table_lines({column_kind::text, column_kind::number}, {{"\u00fc\u20ac", "1"}, {"abc", "10"}}),
              ElementsAre("\u00fc\u20ac    1", "abc  10"));
}

TEST(text_table, has_no_control_characters) {
  EXPECT_THAT(table_lines({column_kind::text, column_kind::number}, {{"a\x1b[2J", "1"}, {"a\nbcde", "10"}}),
              ElementsAre("a?[2J    1", "a?bcde  10"));
}

TEST(terminal_text, is_printable) {
  EXPECT_EQ(printable("expert-0 \u00fc\u20ac\U0001f600"), "expert-0 \u00fc\u20ac\U0001f600");
  EXPECT_EQ(printable(std::string_view("a\0b\tc\x7f", 6)), "a?b?c?");
  EXPECT_EQ(printable("\xc2\x9b"), "?") << "CSI of eight bits";
  EXPECT_EQ(printable("\u202e\u2028\u200f\u2066"), "????") << "directions of writing, ends of lines";
  EXPECT_EQ(printable("\xff\xe2\x82"), "???") << "bytes that are no UTF-8";
}

TEST(terminal_text, is_cut_between_characters) {
  EXPECT_EQ(columns_of("a\u00fc\u20ac\U0001f600"), 4U);
  EXPECT_EQ(first_columns("a\u00fc\u20acz", 2), "a\u00fc");
  EXPECT_EQ(first_columns("a\u00fc", 5), "a\u00fc");
  EXPECT_EQ(first_columns("a", 0), "");
  EXPECT_EQ(excerpt("\x1b\u00fcz", 2), "?\u00fc");
}

} // namespace
} // namespace troupe
