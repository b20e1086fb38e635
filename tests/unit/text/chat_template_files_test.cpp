// Where a model's chat templates are, which one is used, and that a broken one is found at load.

#include "services/gateway/text/chat_template.hpp"
#include "services/gateway/text/text_error.hpp"

#include "tests/unit/text/template_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace troupe::text {

namespace {

using nlohmann::json;
using testing::ThrowsMessage;

constexpr const char* greeting = R"([{"role": "user", "content": "hi"}])";
constexpr const char* one_tool = R"([{"type": "function", "function": {"name": "f"}}])";

/// A separate model folder for each test.
class chat_template_files : public testing::Test {
 protected:
  chat_template_files()
      : folder_(std::filesystem::temp_directory_path()
                / ("chat_template_files." + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "additional_chat_templates");
  }

  ~chat_template_files() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::string write(const std::string& name, const json& value) const { return write(name, value.dump()); }

  chat_template load() const { return chat_template::load(shared_processes(), folder_); }

  std::string prompt() const { return load().render({.messages = greeting}); }

  std::string tool_prompt() const { return load().render({.messages = greeting, .tools = one_tool}); }

  void expect_broken(const std::string& what) const {
    EXPECT_THAT([&] { load(); }, ThrowsMessage<text_error>(what));
  }

  std::filesystem::path folder_;
};

json named(const std::string& normal, const std::string& with_tools) {
  return {{"chat_template",
           {{{"name", "default"}, {"template", normal}}, {{"name", "tool_use"}, {"template", with_tools}}}}};
}

TEST_F(chat_template_files, a_template_of_tokenizer_config_json) {
  write("tokenizer_config.json", json{{"chat_template", "one {{ messages[0].content }}"}});
  EXPECT_EQ(prompt(), "one hi");
}

TEST_F(chat_template_files, named_templates_of_tokenizer_config_json) {
  write("tokenizer_config.json", named("one", "two"));
  EXPECT_EQ(prompt(), "one");
  EXPECT_EQ(tool_prompt(), "two");
}

TEST_F(chat_template_files, template_files_replace_those_of_tokenizer_config_json) {
  write("tokenizer_config.json", named("one", "two"));
  write("chat_template.jinja", std::string("three"));
  EXPECT_EQ(prompt(), "three");
  EXPECT_EQ(tool_prompt(), "three"); // all of them are replaced, as in transformers
  write("additional_chat_templates/tool_use.jinja", std::string("four"));
  EXPECT_EQ(prompt(), "three");
  EXPECT_EQ(tool_prompt(), "four");
}

TEST_F(chat_template_files, chat_template_json_is_the_last_resort) {
  write("chat_template.json", json{{"chat_template", "five"}});
  EXPECT_EQ(prompt(), "five");
  write("tokenizer_config.json", json{{"chat_template", "one"}});
  EXPECT_EQ(prompt(), "one");
}

TEST_F(chat_template_files, a_file_instead_of_the_models_own_has_the_models_special_tokens) {
  write("tokenizer_config.json", json{{"chat_template", "one"}, {"bos_token", "<s>"}});
  write("chat_template.jinja", std::string("two"));
  const auto file = write("mine.jinja", std::string("{{ bos_token }}mine"));
  EXPECT_EQ(chat_template::load(shared_processes(), folder_, file).render({.messages = greeting}), "<s>mine");
  EXPECT_THAT([&] { chat_template::load(shared_processes(), folder_, folder_ / "none"); },
              ThrowsMessage<text_error>((folder_ / "none").string() + ": no such file"));
}

TEST_F(chat_template_files, special_tokens_map_json_gives_templates_their_variables) {
  write("chat_template.jinja",
        std::string("{{ bos_token }}|{{ eos_token }}|{{ additional_special_tokens }}"));
  write("special_tokens_map.json", json{{"bos_token", {{"content", "<s>"}}},
                                        {"eos_token", "</s>"},
                                        {"additional_special_tokens", {"<x>"}}});
  EXPECT_EQ(prompt(), "<s>|</s>|['<x>']");
}

TEST_F(chat_template_files, a_broken_template_is_found_when_it_is_loaded) {
  const std::string broken = "line one\nline two {{ messages }\n";
  const std::string flaw = ": the chat template is not valid: line 2: unexpected '}'";
  const auto config = write("tokenizer_config.json", json{{"chat_template", broken}});
  expect_broken(config + ": /chat_template" + flaw);
  write("tokenizer_config.json", named("fine", broken));
  expect_broken(config + ": /chat_template/1/template" + flaw);
  const auto file = write("chat_template.jinja", broken);
  expect_broken(file + flaw);
  EXPECT_THAT([&] { chat_template::load(shared_processes(), folder_, file); },
              ThrowsMessage<text_error>(file + flaw));
  write("chat_template.jinja", std::string("fine"));
  const auto tools = write("additional_chat_templates/tool_use.jinja", broken);
  expect_broken(tools + flaw);
  EXPECT_THAT([&] { chat_template(shared_processes(), broken); },
              ThrowsMessage<text_error>("chat template" + flaw));
}

TEST_F(chat_template_files, every_kind_of_flaw_is_found_with_its_line) {
  const auto expect_flaw = [](const std::string& source, const std::string& what) {
    EXPECT_THAT([&] { chat_template(shared_processes(), source); },
                ThrowsMessage<text_error>("chat template: the chat template is not valid: " + what));
  };
  expect_flaw("{% for %}", "line 1: Expected an expression, got 'end of statement block'");
  expect_flaw("\n\n{% if true %}",
              "line 3: Unexpected end of template. Jinja was looking for the following tags: "
              "'elif' or 'else' or 'endif'. The innermost block that needs to be closed is 'if'.");
  expect_flaw("\n{{ 1 | no_such_filter }}", "line 2: No filter named 'no_such_filter'.");
  expect_flaw("{{ '\xff' }}",
              "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 4: invalid start byte");
}

TEST_F(chat_template_files, a_template_that_is_never_rendered_may_be_broken) {
  write("tokenizer_config.json",
        json{{"chat_template",
              {{{"name", "default"}, {"template", "one"}}, {{"name", "rag"}, {"template", "{% for %}"}}}}});
  EXPECT_EQ(prompt(), "one");
}

constexpr const char* of_roles =
    "{% for m in messages %}{% if m.role in ['system', 'user'] %}<{{ m.role }}>{{ m.content }}"
    "{% endif %}{% endfor %}";
constexpr const char* of_parts =
    "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{{ part.text }}"
    "{% endfor %}{% endfor %}";
constexpr const char* developer =
    R"([{"role": "developer", "content": "rule"}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";

TEST_F(chat_template_files, developer_is_system_where_the_template_does_not_know_it) {
  write("chat_template.jinja", std::string(of_roles));
  EXPECT_EQ(load().render({.messages = developer}), "<system>rule<user>a\nb");
  write("chat_template.jinja", std::string("{% for m in messages %}{% if m.role not in ['system', 'user'] %}"
                                           "{{ raise_exception('Unexpected message role.') }}{% endif %}"
                                           "<{{ m.role }}>{{ m.content }}{% endfor %}"));
  EXPECT_EQ(load().render({.messages = developer}), "<system>rule<user>a\nb");
  write("chat_template.jinja",
        std::string("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"));
  EXPECT_EQ(load().render({.messages = developer}), "<developer>rule<user>a\nb");
}

TEST_F(chat_template_files, a_template_that_takes_parts_gets_parts) {
  write("chat_template.jinja", std::string(of_parts));
  EXPECT_EQ(load().render({.messages = developer}), "<developer>rule<user>ab");
  EXPECT_EQ(prompt(), "<user>hi");
}

TEST_F(chat_template_files, a_template_that_takes_both_gets_what_was_sent) {
  write("chat_template.jinja",
        std::string("{% for m in messages %}{% if m.content is string %}s:{{ m.content }}{% else %}p:"
                    "{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}{% endfor %}"));
  EXPECT_EQ(load().render({.messages = developer}), "s:rulep:ab");
}

TEST_F(chat_template_files, says_what_a_template_loses) {
  const auto file = write("chat_template.jinja", std::string(of_roles));
  EXPECT_EQ(load().losses(),
            std::vector<std::string>{file + ": the chat template: it has no place for 'tools'"});
  write("chat_template.jinja",
        std::string("{% for m in messages if m.role == 'user' %}{{ m.content }}{{ tools }}{% endfor %}"));
  EXPECT_EQ(load().losses(),
            std::vector<std::string>{file + ": the chat template: it has no place for the role 'system'"});
  write("chat_template.jinja", std::string("hello"));
  EXPECT_EQ(load().losses(),
            std::vector<std::string>{file
                                     + ": the chat template: it writes no user's text into the "
                                       "prompt, neither as a string nor as a list of parts"});
  write("chat_template.jinja", std::string("{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}"));
  EXPECT_TRUE(load().losses().empty());
}

} // namespace

} // namespace troupe::text
