// `continue_final_message` with templates that Jinja2 renders: the prompt ends within the last message,
// whatever the template does to contents and writes after them.
#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/plan.hpp"
#include "services/gateway/text/chat_template.hpp"
#include "tests/unit/http/fake_codec.hpp"

#include "tests/unit/text/template_programs.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace troupe::text {

namespace {

/// Bytes are tokens, and the template is a real one.
class template_codec final : public http_test::fake_codec {
 public:
  explicit template_codec(std::string source) : template_(shared_processes(), std::move(source)) {}

  std::string render(const chat_request& request) const override { return template_.render(request); }

 private:
  chat_template template_;
};

/// The prompt of a conversation whose last message, the assistant's, is `content` in JSON.
std::string prompt_of(const std::string& source, const std::string& content) {
  openai::request_limits limits;
  limits.max_model_len = 1000;
  limits.vocab_size = http_test::vocab_size;
  const template_codec codec(source);
  const auto asked = openai::parse_chat_completion_request(
      R"({"continue_final_message":true,"messages":[{"role":"user","content":" hi "},{"role":"assistant","content":")"
          + content + R"("}]})",
      limits);
  return codec.decode(openai::make_plan(asked, codec, limits, 1).prompts.at(0).tokens, false);
}

/// Writes the end of a turn after every message, and opens an answer on request.
std::string turns(const std::string& content) {
  return "{% for m in messages %}[{{ m.role }}]" + content
         + "[/turn]\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
}

TEST(continued_message, goes_on_where_its_text_ends_and_not_behind_the_suffix) {
  const std::string source = turns("{{ m.content }}");
  EXPECT_EQ(prompt_of(source, "I say"), "[user] hi [/turn]\n[assistant]I say");
  EXPECT_EQ(prompt_of(source, "I say \\n "), "[user] hi [/turn]\n[assistant]I say \n ");
  EXPECT_EQ(prompt_of(source, ""), "[user] hi [/turn]\n[assistant]");
}

TEST(continued_message, loses_its_blanks_where_the_template_trims_contents) {
  const std::string source = turns("{{ m.content | trim }}");
  EXPECT_EQ(prompt_of(source, "I say"), "[user]hi[/turn]\n[assistant]I say");
  EXPECT_EQ(prompt_of(source, "  I say \\n "), "[user]hi[/turn]\n[assistant]I say");
}

TEST(continued_message, is_refused_by_a_template_that_does_not_write_it) {
  const std::string source = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}";
  try {
    prompt_of(source, "I say");
    FAIL() << "it was accepted";
  } catch (const openai::api_error& e) {
    EXPECT_EQ(e.status, 400U);
    EXPECT_EQ(e.param, "continue_final_message");
  }
}

} // namespace

} // namespace troupe::text
