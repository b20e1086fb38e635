#include "load/stream_reader.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace troupe::load {
namespace {

constexpr const char* token = R"({"choices":[{"index":0,"text":"a","finish_reason":null}],"usage":null})";
/// A token whose text is held back.
constexpr const char* silent = R"({"choices":[{"index":0,"text":"","finish_reason":null}]})";
/// An end token: it has no text.
constexpr const char* finish = R"({"choices":[{"index":0,"text":"","finish_reason":"stop"}],"usage":null})";
constexpr const char* usage = R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":4}})";

using gaps = std::vector<double>;

TEST(stream_reader, counts_gaps_between_tokens_with_text_or_without) {
  request_record record;
  stream_reader reader(record);
  reader.take(token, 0.5);
  reader.take(silent, 0.75);
  reader.take(token, 1.25);
  reader.take(finish, 1.5);
  reader.take(usage, 1.75);
  EXPECT_FALSE(reader.done());
  reader.take("[DONE]", 1.75);
  EXPECT_TRUE(reader.done());
  EXPECT_DOUBLE_EQ(record.ttft, 0.5);
  EXPECT_EQ(record.gaps, (gaps{0.25, 0.5, 0.25}));
  EXPECT_EQ(record.input_tokens, 7U);
  EXPECT_EQ(record.output_tokens, 4U);
  EXPECT_EQ(record.error, "");
}

TEST(stream_reader, keeps_the_text_where_it_is_told_to) {
  request_record kept;
  request_record dropped;
  stream_reader keeps(kept, true);
  stream_reader drops(dropped);
  for (const auto* event : {token, silent, token, finish, usage}) {
    keeps.take(event, 0.5);
    drops.take(event, 0.5);
  }
  EXPECT_EQ(kept.text, "aa");
  EXPECT_EQ(dropped.text, "");
}

TEST(stream_reader, knows_the_first_token_of_an_answer_without_text) {
  request_record record;
  stream_reader reader(record);
  reader.take(finish, 0.5);
  EXPECT_DOUBLE_EQ(record.ttft, 0.5);
  EXPECT_EQ(record.gaps, gaps{});
}

TEST(stream_reader, keeps_the_name_of_the_model_that_answers) {
  request_record record;
  stream_reader reader(record);
  reader.take(R"({"model":"tiny","choices":[{"index":0,"text":"a","finish_reason":null}]})", 0.5);
  reader.take(token, 0.75);
  EXPECT_EQ(record.model, "tiny");
}

TEST(stream_reader, keeps_the_message_of_an_error) {
  request_record record;
  stream_reader reader(record);
  reader.take(token, 0.5);
  reader.take(R"({"error":{"message":"out of memory"}})", 0.75);
  EXPECT_EQ(record.error, "out of memory");
  EXPECT_EQ(record.gaps, gaps{});
}

TEST(stream_reader, takes_errors_of_any_form) {
  for (const auto& [data, error] :
       {std::pair{R"({"error":"x"})", "x"},
        std::pair{R"({"error":{"message":null}})", R"({"error":{"message":null}})"},
        std::pair{R"({"error":{}})", R"({"error":{}})"}, std::pair{R"({"error":[3]})", R"({"error":[3]})"}}) {
    request_record record;
    stream_reader reader(record);
    reader.take(data, 0.5);
    EXPECT_EQ(record.error, error);
  }
}

TEST(stream_reader, an_error_of_null_is_none) {
  request_record record;
  stream_reader reader(record);
  reader.take(R"({"error":null,"choices":[{"index":0,"text":"a"}],"usage":{"prompt_tokens":7}})", 0.5);
  EXPECT_EQ(record.error, "");
  EXPECT_DOUBLE_EQ(record.ttft, 0.5);
  EXPECT_EQ(record.input_tokens, 7U);
}

TEST(stream_reader, counts_that_are_no_numbers_say_nothing) {
  request_record record;
  record.input_tokens = 5; // known before
  stream_reader reader(record);
  reader.take(R"({"choices":[],"usage":{"prompt_tokens":null,"completion_tokens":null}})", 0.5);
  reader.take(R"({"choices":null,"usage":{"prompt_tokens":"7","completion_tokens":-1}})", 0.5);
  EXPECT_EQ(record.input_tokens, 5U);
  EXPECT_EQ(record.output_tokens, 0U);
  reader.take(usage, 0.75);
  EXPECT_EQ(record.input_tokens, 7U);
  EXPECT_EQ(record.output_tokens, 4U);
}

TEST(stream_reader, what_is_no_chunk_is_no_token) {
  request_record record;
  stream_reader reader(record);
  for (const char* data : {"", "{", "3", "[]", "null", R"("choices")", R"({"choices":3})", R"({"model":3})"})
    reader.take(data, 0.5);
  EXPECT_DOUBLE_EQ(record.ttft, 0.0);
  EXPECT_EQ(record.error, "");
  EXPECT_FALSE(reader.done());
}

} // namespace
} // namespace troupe::load
