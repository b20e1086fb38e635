#include "actors/attention/sequence_table.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

generation_request request_of(std::uint64_t request, std::uint32_t choice, std::vector<std::int32_t> prompt) {
  generation_request result;
  result.id = {{request}, choice};
  result.prompt = std::move(prompt);
  return result;
}

accepted_sequence sequence_of(const generation_request& request) {
  accepted_sequence result;
  result.tokens = std::make_shared<sequence_tokens>();
  result.tokens->id = request.id;
  result.tokens->num_prompt = static_cast<std::uint32_t>(request.prompt.size());
  result.tokens->tokens = request.prompt;
  return result;
}

TEST(sequence_table, a_session_is_known_while_it_wants_sequences) {
  sequence_table table;
  EXPECT_TRUE(table.add(table.next_key(), sequence_of(request_of(1, 0, {1}))));
  EXPECT_FALSE(table.add(table.next_key(), sequence_of(request_of(1, 1, {1}))));
  EXPECT_EQ(table.of_session({}), (std::vector<sequence_table::key>{1, 2}));
  EXPECT_FALSE(table.part(1));
  table.at(1).cancelled = true;
  EXPECT_EQ(table.of_session({}), std::vector<sequence_table::key>{2});
  EXPECT_FALSE(table.find({{1}, 0})) << "it may be in flight, and is not wanted";
  EXPECT_EQ(table.find({{1}, 1}), sequence_table::key{2});
  EXPECT_EQ(table.all().size(), 2U);
  EXPECT_EQ(table.wanted().size(), 1U);
  EXPECT_TRUE(table.part(2));
  table.erase(2);
  EXPECT_EQ(table.all().size(), 1U);
}

} // namespace
} // namespace troupe
