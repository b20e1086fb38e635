// Lists of processors, and their division among the processes of a machine.
#include "services/options/processors.hpp"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/options/option_parser.hpp"
#include "services/options/role_options.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(processors, a_list_is_read_as_it_is_written) {
  const auto usable = usable_processors();
  const auto first = std::to_string(usable[0]);
  EXPECT_THAT(parse_processors(first, "--cores"), ElementsAre(usable[0]));
  EXPECT_THAT(parse_processors(first + "-" + first, "--cores"), ElementsAre(usable[0]));
  EXPECT_EQ(parse_processors(processors_text(usable), "--cores"), usable);
  if (usable.size() > 1) {
    const std::vector<int> turned{usable[1], usable[0]};
    EXPECT_EQ(parse_processors(processors_text(turned), "--cores"), turned) << "in the order of the list";
  }
}

TEST(processors, what_is_no_list_is_refused_with_the_flag) {
  const auto first = std::to_string(usable_processors()[0]);
  for (const auto& text :
       {std::string("x"), std::string("-1"), first + "-", first + ",", "," + first, first + " ", first + "-x",
        first + "--1", std::string("0x0"), std::string("99999999999"), std::string("5-4")})
    EXPECT_THROW(parse_processors(text, "--cores"), option_error) << text;
  EXPECT_THAT([] { parse_processors("a few", "--cores"); },
              ThrowsMessage<option_error>(HasSubstr("--cores: 'a few' is not a list of processors")));
  EXPECT_THAT([] { parse_processors("100000", "--cores"); },
              ThrowsMessage<option_error>(HasSubstr("may not run on processor 100000, only on "
                                                    + processors_text(usable_processors()))));
  EXPECT_THAT([&] { parse_processors(first + "," + first, "--cores"); },
              ThrowsMessage<option_error>(HasSubstr("names processor " + first + " twice")));
}

TEST(processors, processes_begin_at_their_shares_and_reach_over_to_others) {
  const std::vector<int> all{2, 3, 4, 5};
  EXPECT_THAT(processors_of(all, 0, 1, 4), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(processors_of(all, 1, 2, 4), ElementsAre(4, 5, 2, 3));
  EXPECT_THAT(processors_of(all, 2, 4, 2), ElementsAre(4, 5));
  EXPECT_THAT(processors_of(all, 3, 4, 2), ElementsAre(5, 2));
  EXPECT_THAT(processors_of({}, 0, 2, 2), IsEmpty());
  std::map<int, int> load;
  for (std::size_t i = 0; i < 4; ++i)
    for (const int processor : processors_of(all, i, 4, 2))
      ++load[processor];
  for (const int processor : all)
    EXPECT_EQ(load[processor], 2);
  EXPECT_THAT(processors_of(all, 6, 8, 1), ElementsAre(5)) << "more processes than processors";
}

TEST(processors, a_list_says_how_many_threads_and_must_agree_with_the_flag) {
  model_options options;
  EXPECT_EQ(options.num_threads(), available_processors()) << "fewer than are usable, under a CPU quota";
  EXPECT_THAT(options.cores_list(), IsEmpty());
  options.cores = std::to_string(usable_processors()[0]);
  EXPECT_EQ(options.num_threads(), 1U);
  EXPECT_THAT(options.cores_list(), ElementsAre(usable_processors()[0]));
  options.check();
  options.threads = 2;
  EXPECT_THAT([&] { options.check(); },
              ThrowsMessage<option_error>(
                  HasSubstr("--cores: '" + options.cores + "' is 1 processor, and --threads asks for 2")));
}

} // namespace
} // namespace troupe
