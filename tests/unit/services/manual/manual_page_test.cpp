// Manual pages: their content, and that they are well formed.
#include "services/manual/manual_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::manual {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const release today{"1.2.3", "2026-01-31"};

command_description serve() {
  return {"troupe serve",
          "Serves a model.",
          "Serves a model, all in one process.",
          {{"MODEL_DIR", "the model"}},
          {{"config", "FILE", ".hidden is a file's name", "", false},
           {"threads", "N", "a back\\slash", "4", false},
           {"standby", "", "wait", "false", true}},
          {},
          ""};
}

TEST(manual_page, of_a_command_has_its_flags) {
  const std::string page = manual_page(serve(), today, false);
  EXPECT_THAT(page, ::testing::StartsWith(".TH TROUPE\\-SERVE 1 2026-01-31 \"Troupe 1.2.3\" \"Troupe\"\n"
                                          ".SH NAME\ntroupe\\-serve \\- serves a model\n"));
  EXPECT_THAT(page, HasSubstr("\\fBtroupe serve\\fR \\fIMODEL_DIR\\fR [flags]\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-\\-threads\\fR \\fIN\\fR\na back\\eslash (default: 4)\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-\\-standby\\fR\nwait (default: false)\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.hidden is a file's name\n")) << "else it were a request";
  EXPECT_THAT(page, Not(HasSubstr(".SH COMMANDS")));
}

TEST(manual_page, of_a_program_names_the_pages_of_its_commands) {
  const std::string page = manual_page(
      {"troupe", "Serves models.", "", {}, {}, {serve()}, "A line.\nAnother one.\n"}, today, true);
  EXPECT_THAT(page, HasSubstr("\\fBtroupe\\fR \\fICOMMAND\\fR [arguments]\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fBtroupe\\-serve\\fR(1)\nServes a model.\n"));
  EXPECT_THAT(page, HasSubstr("A line.\n.br\nAnother one.\n"));
  EXPECT_THAT(page, Not(HasSubstr("threads\\fR")));
}

TEST(manual_page, of_a_command_with_commands_has_theirs) {
  auto inner = serve();
  inner.name = "troupe placement move";
  const std::string page = manual_page(
      {"troupe placement", "Shows.", "Shows.", {}, {{"json", "", "as JSON", "", true}}, {inner}, ""}, today,
      false);
  EXPECT_THAT(page,
              HasSubstr("\\fBtroupe placement\\fR [flags]\n.br\n\\fBtroupe placement\\fR \\fICOMMAND\\fR"));
  EXPECT_THAT(page, HasSubstr(".SS troupe placement move\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-threads\\fR"));
}

} // namespace
} // namespace troupe::manual
