// Which versions of UCX are repaired, and the operators' messages about others.
#include "actors/transport/fabric/ucx_repairs.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace troupe {
namespace {

constexpr ucx_version tested{1, 13, 1};
constexpr ucx_version newer{1, 14, 0};

TEST(ucx_repairs, every_release_of_the_tested_version_is_repaired_in_silence) {
  for (const ucx_version version : {tested, ucx_version{1, 13, 9}})
    for (const ucx_repairs wanted : {ucx_repairs::automatic, ucx_repairs::on, ucx_repairs::required}) {
      const ucx_verdict verdict = judge_ucx(wanted, version);
      EXPECT_TRUE(verdict.act);
      EXPECT_EQ(verdict.warning, "");
    }
}

TEST(ucx_repairs, another_version_runs_without_them_and_says_so) {
  for (const ucx_version version : {newer, ucx_version{1, 12, 1}, ucx_version{2, 13, 0}}) {
    const ucx_verdict verdict = judge_ucx(ucx_repairs::automatic, version);
    EXPECT_FALSE(verdict.act);
    EXPECT_EQ(verdict.warning.find("UCX " + version.text() + " is none of the tested versions"), 0U);
  }
}

TEST(ucx_repairs, another_version_is_repaired_or_refused_where_the_operator_says_so) {
  const ucx_verdict forced = judge_ucx(ucx_repairs::on, newer);
  EXPECT_TRUE(forced.act);
  EXPECT_NE(forced.warning, "");
  EXPECT_THROW(judge_ucx(ucx_repairs::required, newer), std::runtime_error);
}

TEST(ucx_repairs, to_have_them_off_is_told) {
  const ucx_verdict verdict = judge_ucx(ucx_repairs::off, tested);
  EXPECT_FALSE(verdict.act);
  EXPECT_NE(verdict.warning, "");
}

TEST(ucx_repairs, the_version_that_is_loaded_here_is_a_tested_one) {
  EXPECT_TRUE(is_tested(loaded_ucx())) << loaded_ucx().text();
}

} // namespace
} // namespace troupe
