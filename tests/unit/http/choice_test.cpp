#include "services/gateway/openai/choice.hpp"

#include <gtest/gtest.h>

#include "services/gateway/openai/request.hpp"
#include "tests/unit/http/fake_codec.hpp"

namespace troupe::openai {

namespace {

using http_test::eos;
using http_test::fake_codec;

generated_token token(std::int32_t id) {
  generated_token result;
  result.token = id;
  result.rank = 1;
  return result;
}

class choice_test : public testing::Test {
 protected:
  /// Pushes every byte of `text` as a token.
  choice_delta push(choice& one, const std::string& text) {
    choice_delta all;
    for (const char c : text)
      append(all, one.push(token(static_cast<unsigned char>(c))));
    return all;
  }

  fake_codec codec;
  generation_options options;
};

std::vector<std::size_t> offsets(const choice_delta& delta) {
  std::vector<std::size_t> result;
  for (const placed_token& placed : delta.tokens)
    result.push_back(placed.text_offset);
  return result;
}

} // namespace

TEST_F(choice_test, never_gives_half_a_character) {
  choice one{codec, options, {}};
  EXPECT_EQ(one.push(token(0xC3)).text, "");
  EXPECT_EQ(one.push(token(0xA4)).text, "ä");
  EXPECT_EQ(one.push(token(0xC3)).text, "");
  EXPECT_EQ(one.finish(finish_reason::length).text, "\xEF\xBF\xBD");
  EXPECT_STREQ(one.reason(), "length");
  EXPECT_EQ(one.num_tokens(), 3U);
}

TEST_F(choice_test, a_stop_string_ends_it_and_later_tokens_do_not_count) {
  options.stop = {"lo w"};
  choice one{codec, options, {}};
  EXPECT_EQ(push(one, "hello wide world").text, "hel");
  EXPECT_TRUE(one.finished());
  EXPECT_STREQ(one.reason(), "stop");
  EXPECT_EQ(one.cause(), stop_cause{std::string{"lo w"}});
  EXPECT_EQ(one.num_tokens(), 7U);
  EXPECT_EQ(one.finish(finish_reason::length).text, "");
  EXPECT_STREQ(one.reason(), "stop");
}

TEST_F(choice_test, a_stop_string_may_be_completed_by_the_flush) {
  options.stop = {"\xEF\xBF\xBD"};
  choice one{codec, options, {}};
  EXPECT_EQ(push(one, "a\xC3").text, "a");
  EXPECT_EQ(one.finish(finish_reason::length).text, "");
  EXPECT_STREQ(one.reason(), "stop");
}

TEST_F(choice_test, min_tokens_delays_stop_strings) {
  options.stop = {"b"};
  options.sampling.min_tokens = 3;
  choice one{codec, options, {}};
  EXPECT_EQ(push(one, "abab").text, "aba");
  EXPECT_TRUE(one.finished());
}

TEST_F(choice_test, the_end_token_is_no_cause_and_the_clients_own_is) {
  options.stop_token_ids = {7};
  choice ended{codec, options, {}};
  push(ended, "x");
  ended.push(token(eos), finish_reason::stop);
  EXPECT_STREQ(ended.reason(), "stop");
  EXPECT_EQ(ended.cause(), stop_cause{});
  EXPECT_EQ(ended.num_tokens(), 2U);
  choice stopped{codec, options, {}};
  stopped.push(token(7), finish_reason::stop);
  EXPECT_EQ(stopped.cause(), stop_cause{7});
}

TEST_F(choice_test, every_token_has_its_logprob_at_once_though_its_text_is_held_back) {
  options.logprobs = 0;
  options.stop = {"xyz"};
  choice one{codec, options, {}, 10};
  EXPECT_EQ(offsets(push(one, "a")), (std::vector<std::size_t>{10}));
  const choice_delta held = push(one, "xy");
  EXPECT_EQ(held.text, "");
  EXPECT_EQ(offsets(held), (std::vector<std::size_t>{11, 12}));
  const choice_delta released = push(one, "!");
  EXPECT_EQ(released.text, "xy!");
  EXPECT_EQ(offsets(released), (std::vector<std::size_t>{13}));
}

TEST_F(choice_test, tokens_of_a_stop_string_have_ids_and_logprobs_and_no_text) {
  options.logprobs = 0;
  options.stop = {"xyz"};
  options.return_token_ids = true;
  choice one{codec, options, {}};
  const choice_delta all = push(one, "abxyz");
  EXPECT_EQ(all.text, "ab");
  EXPECT_EQ(offsets(all), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(all.token_ids, (std::vector<std::int32_t>{'a', 'b', 'x', 'y', 'z'}));
  EXPECT_EQ(one.num_tokens(), 5U);
}

TEST_F(choice_test, the_end_token_has_an_id_and_a_logprob_and_no_text) {
  options.logprobs = 0;
  options.return_token_ids = true;
  for (const bool include_stop : {false, true}) {
    options.include_stop = include_stop; // it is special, and those are skipped
    choice one{codec, options, {}};
    choice_delta all = push(one, "ab");
    append(all, one.push(token(eos), finish_reason::stop));
    EXPECT_EQ(all.text, "ab");
    EXPECT_EQ(offsets(all), (std::vector<std::size_t>{0, 1, 2}));
    EXPECT_EQ(all.tokens.back().token.token, eos);
    EXPECT_EQ(all.token_ids, (std::vector<std::int32_t>{'a', 'b', eos}));
    EXPECT_EQ(one.num_tokens(), 3U);
  }
}

TEST_F(choice_test, a_stop_token_is_text_only_where_it_is_asked_for) {
  options.logprobs = 0;
  options.stop_token_ids = {'!'};
  options.skip_special_tokens = false;
  const auto ended_by = [&](std::int32_t last) {
    choice one{codec, options, {}};
    choice_delta all = push(one, "ab");
    append(all, one.push(token(last), finish_reason::stop));
    EXPECT_EQ(offsets(all), (std::vector<std::size_t>{0, 1, 2}));
    return all.text;
  };
  EXPECT_EQ(ended_by('!'), "ab");
  EXPECT_EQ(ended_by(eos), "ab");
  options.include_stop = true;
  EXPECT_EQ(ended_by('!'), "ab!");
  EXPECT_EQ(ended_by(eos), "ab<eos>");
}

TEST_F(choice_test, the_last_token_brings_what_was_held_back) {
  options.stop = {"xyz"};
  choice one{codec, options, {}};
  push(one, "ax");
  const choice_delta last = one.push(token('y'), finish_reason::length);
  EXPECT_EQ(last.text, "xy");
  EXPECT_STREQ(one.reason(), "length");
}

TEST_F(choice_test, offsets_count_characters_and_parts_share_theirs) {
  options.logprobs = 0;
  choice one{codec, options, {}};
  const choice_delta all = push(one, "äb");
  EXPECT_EQ(all.text, "äb");
  EXPECT_EQ(offsets(all), (std::vector<std::size_t>{0, 0, 1}));
}

TEST_F(choice_test, a_stop_string_that_is_a_special_token_is_the_cause_of_its_id) {
  options.special_stops = {{eos, "<eos>"}};
  for (const bool shown : {false, true}) {
    options.include_stop = shown;
    choice one{codec, options, {}};
    push(one, "ab");
    EXPECT_EQ(one.push(token(eos), finish_reason::stop).text, shown ? "<eos>" : "");
    EXPECT_EQ(one.cause(), stop_cause{std::string{"<eos>"}});
  }
}

TEST_F(choice_test, special_tokens_are_shown_on_request) {
  choice silent{codec, options, {}};
  EXPECT_EQ(silent.push(token(http_test::bos)).text, "");
  options.skip_special_tokens = false;
  choice verbose{codec, options, {}};
  EXPECT_EQ(verbose.push(token(http_test::bos)).text, "<bos>");
}

} // namespace troupe::openai
