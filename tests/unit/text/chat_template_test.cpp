#include "services/gateway/text/chat_template.hpp"

#include "services/gateway/text/text_error.hpp"
#include "tests/unit/text/golden_files.hpp"

#include "tests/unit/text/template_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <iomanip>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace troupe::text {

namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// `golden` with today's date where make_chats.py noted a call of strftime_now.
std::string dated(std::string golden) {
  constexpr std::string_view open = "<strftime_now(";
  constexpr std::string_view close = ")>";
  const auto now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  for (auto at = golden.find(open); at != std::string::npos; at = golden.find(open)) {
    const auto form = at + open.size();
    const auto end = golden.find(close, form);
    std::ostringstream date;
    date << std::put_time(&local, golden.substr(form, end - form).c_str());
    golden.replace(at, end + close.size() - at, date.str());
  }
  return golden;
}

class published_template : public testing::TestWithParam<std::string> {};

TEST_P(published_template, renders_what_jinja2_renders) {
  const auto dir = vocabulary_dir(GetParam());
  if (!dir)
    TROUPE_SKIP_UNFETCHED("the templates of " + GetParam());
  const auto chat = chat_template::load(shared_processes(), *dir);
  ASSERT_TRUE(chat.available());
  const auto conversations =
      nlohmann::ordered_json::parse(read_file(golden_dir / "chats/conversations.json"));
  const auto goldens = read_lines(golden_dir / "chats" / (GetParam() + ".jsonl"));
  ASSERT_EQ(conversations.size(), goldens.size());
  for (std::size_t i = 0; i < goldens.size(); ++i) {
    const auto& conversation = conversations[i];
    const auto golden = nlohmann::json::parse(goldens[i]);
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const auto messages = conversation.at("messages").dump();
    const auto tools = conversation.contains("tools") ? conversation.at("tools").dump() : std::string();
    const auto extra = conversation.contains("extra") ? conversation.at("extra").dump() : std::string();
    const chat_request request{.messages = messages,
                               .add_generation_prompt = conversation.value("add_generation_prompt", true),
                               .tools = tools,
                               .extra = extra};
    const bool has_parts = messages.find(R"("type":"text")") != std::string::npos;
    const auto golden_text = golden.value("prompt", std::string());
    if (has_parts
        && (golden_text.find("part one") == std::string::npos
            || golden_text.find("'type'") != std::string::npos)) {
      // Jinja2 itself fails, drops the list, or writes it in Python's form.
      EXPECT_THAT(chat.render(request), testing::HasSubstr("part one\npart two"));
    } else if (golden.contains("prompt")) {
      const auto before = dated(golden_text); // midnight may come in between
      const auto got = chat.render(request);
      EXPECT_EQ(got, got == before ? before : dated(golden_text));
    } else if (golden.at("refused").is_string()) {
      EXPECT_THAT([&] { chat.render(request); },
                  ThrowsMessage<template_error>(golden.at("refused").get<std::string>()));
    } else {
      EXPECT_THROW(chat.render(request), template_error);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(npm, published_template, testing::ValuesIn(names_of(golden_dir / "chats", ".jsonl")),
                         [](const auto& test) { return test.param; });

constexpr const char* one_user = R"([{"role": "user", "content": "hi"}])";

TEST(chat_template, gives_templates_their_variables) {
  const chat_template chat(
      shared_processes(),
      "{{ bos_token }}{{ messages[0].content }}|{{ tools is none }}|{{ x }}|{{ documents is none }}",
      {{"bos_token", "<s>"}});
  EXPECT_EQ(chat.render({.messages = one_user, .extra = R"({"x": [1, null]})"}), "<s>hi|True|[1, None]|True");
}

TEST(chat_template, has_what_transformers_adds_to_jinja) {
  const chat_template chat(shared_processes(),
                           "{% for m in messages %}{{ m | tojson }}{% break %}{% endfor %}"
                           "{% generation %}<a>{% endgeneration %}{{ strftime_now('%Y') | length }}");
  EXPECT_EQ(chat.render({.messages = R"([{"role": "ü<b>", "content": "'"}, {}])"}),
            R"({"role": "ü<b>", "content": "'"}<a>4)");
}

TEST(chat_template, a_model_without_one_says_so) {
  const auto chat = chat_template::load(shared_processes(), golden_dir / "no such folder");
  EXPECT_FALSE(chat.available());
  EXPECT_THAT([&] { chat.render({.messages = one_user}); },
              ThrowsMessage<template_error>(HasSubstr("the model has no chat template")));
}

TEST(chat_template, what_the_template_raises_is_the_message) {
  const chat_template chat(shared_processes(),
                           "{{ raise_exception('only system messages, ' + messages[0].role) }}");
  EXPECT_THAT([&] { chat.render({.messages = one_user}); },
              ThrowsMessage<template_error>("only system messages, user"));
}

TEST(chat_template, a_malformed_request_is_refused_by_name) {
  const chat_template chat(shared_processes(), "{{ messages }}");
  const auto refused = [&](chat_request request, const char* what) {
    EXPECT_THAT([&] { chat.render(request); }, ThrowsMessage<template_error>(HasSubstr(what)));
  };
  refused({.messages = "[1"}, "messages: not valid JSON");
  refused({.messages = "{}"}, "messages: an array is expected");
  refused({.messages = ""}, "messages: not valid JSON");
  refused({.messages = one_user, .tools = "{}"}, "tools: an array is expected");
  refused({.messages = one_user, .extra = "[]"}, "chat_template_kwargs: an object is expected");
  refused({.messages = one_user, .extra = R"({"messages": []})"}, "'messages' has its own place");
  refused({.messages = "[\"\xff\"]"}, "not valid UTF-8");
  refused({.messages = std::string(100'000, '[')}, "messages: not valid JSON");
  const std::string large(17UL << 20U, ' ');
  refused({.messages = large}, "over 16 MiB");
}

TEST(chat_template, half_a_surrogate_pair_is_refused) {
  const chat_template chat(shared_processes(), "{{ messages[0] }}");
  EXPECT_THAT([&] { chat.render({.messages = R"(["\ud800"])"}); },
              ThrowsMessage<template_error>(HasSubstr("half of a surrogate pair")));
}

TEST(chat_template, a_request_may_bring_its_own) {
  const chat_template chat(shared_processes(), "of the model", {{"bos_token", "<s>"}});
  EXPECT_EQ(chat.render({.messages = one_user, .source = "{{ bos_token }}mine {{ messages[0].content }}"}),
            "<s>mine hi");
  EXPECT_EQ(chat.render({.messages = one_user}), "of the model");
  EXPECT_THAT([&] { chat.render({.messages = one_user, .source = "{% for %}"}); },
              ThrowsMessage<template_error>(
                  HasSubstr("the request's template: the chat template is not valid: line 1")));
}

TEST(chat_template, the_sandbox_holds) {
  for (const char* source :
       {"{{ messages.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ ''.__class__ }}",
        "{{ cycler.__init__.__globals__.os }}", "{% include '/etc/passwd' %}"}) {
    const chat_template chat(shared_processes(), source);
    std::string out;
    try {
      out = chat.render({.messages = one_user});
    } catch (const template_error&) {
      continue; // both a refusal and no effect are correct
    }
    EXPECT_EQ(out, "") << source;
  }
}

TEST(chat_template, renders_from_many_threads) {
  const chat_template chat(shared_processes(), "{% for m in messages %}{{ m.content }};{% endfor %}{{ n }}");
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&chat, t] {
      for (int i = 0; i < 50; ++i) {
        const auto n = std::to_string(t * 1000 + i);
        EXPECT_EQ(chat.render({.messages = one_user, .extra = R"({"n": )" + n + "}"}), "hi;" + n);
      }
    });
  }
  for (auto& t : threads)
    t.join();
}

} // namespace

} // namespace troupe::text
