// What the simulation's clients find wrong: a schedule passes only where they find nothing.
#include "tests/simulation/client.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "actors/protocol/error.hpp"

namespace troupe::simulation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class client_test : public testing::Test {
 protected:
  void SetUp() override {
    model_.shape.vocab_size = 997;
    model_.shape.max_model_len = 64;
    model_.shape.row_bytes = 64;
    model_.shape.num_topk = 2;
    model_.shape.layer_experts = {8, 8};
    session_request asked;
    asked.id = {1};
    asked.prompt = {5, 6, 7};
    asked.sampling.max_tokens = 4;
    one_ = std::make_unique<client>(asked);
    generation_request alone;
    alone.id = {asked.id, 0};
    alone.prompt = asked.prompt;
    alone.sampling = asked.sampling;
    wanted_ = hash_model_tokens(model_, alone, model_.shape.max_model_len);
    ASSERT_GE(wanted_.tokens.size(), 2U);
  }

  std::vector<std::string> found() const { return one_->judge(model_); }

  hash_model model_;
  hash_model_output wanted_;
  std::unique_ptr<client> one_;
};

TEST_F(client_test, nothing_in_the_undisturbed_answer) {
  one_->on_tokens(0, wanted_.tokens, wanted_.finish);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(client_test, an_answer_that_does_not_come) {
  one_->on_tokens(0, {wanted_.tokens[0]}, finish_reason::none);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("has no answer")));
}

TEST_F(client_test, another_token) {
  wanted_.tokens[1].token += 1;
  one_->on_tokens(0, wanted_.tokens, wanted_.finish);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("that it gets undisturbed")));
}

TEST_F(client_test, a_short_answer) {
  wanted_.tokens.pop_back();
  one_->on_tokens(0, wanted_.tokens, wanted_.finish);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("that it gets undisturbed")));
}

TEST_F(client_test, a_second_answer) {
  one_->on_tokens(0, wanted_.tokens, wanted_.finish);
  one_->on_tokens(0, {}, wanted_.finish);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("after its answer")));
}

TEST_F(client_test, an_error_after_the_answer) {
  one_->on_tokens(0, wanted_.tokens, wanted_.finish);
  one_->on_error(make_error(ec::not_ready, "late"));
  EXPECT_THAT(found(), ElementsAre(HasSubstr("after its answer")));
}

} // namespace
} // namespace troupe::simulation
