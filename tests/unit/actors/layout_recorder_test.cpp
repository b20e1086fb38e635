#include "tests/unit/actors/layout_recorder.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(layouts, may_grow_at_the_ends_of_extensible_structures) {
  EXPECT_TRUE(extends("(01)", "(01)"));
  EXPECT_TRUE(extends("(01)", "(0102)"));
  EXPECT_TRUE(extends("(0102(a0)(a1)0b)", "(0102(a0c0)(a1c0)0b07(08))"));
  EXPECT_TRUE(extends("02(a0)", "02(a0(0101))"));
}

TEST(layouts, may_change_in_no_other_way) {
  EXPECT_FALSE(extends("(01)", "(02)"));
  EXPECT_FALSE(extends("(01)", "(0201)")) << "a field in front";
  EXPECT_FALSE(extends("(0102)", "(01)")) << "a field less";
  EXPECT_FALSE(extends("01", "0102")) << "what is not extensible";
  EXPECT_FALSE(extends("(01020304)", "(0000000001020304)")) << "a wider field";
  EXPECT_FALSE(extends("(01)02", "(0103)0205"));
  EXPECT_FALSE(extends("01", "(01)")) << "what becomes extensible";
}

TEST(layouts, stand_for_bytes) {
  EXPECT_EQ(bytes_of("01(02(03)ff)"), (std::vector<char>{1, 0, 0, 0, 7, 2, 0, 0, 0, 1, 3, '\xff'}));
  EXPECT_THROW(bytes_of("(01"), std::runtime_error);
  EXPECT_THROW(bytes_of("01)"), std::runtime_error);
}

} // namespace
} // namespace troupe
