// docs/api.md agrees with the parsers about each field of a request: its existence, type and range.
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/request.hpp"
#include "services/gateway/openai/unserved_fields.hpp"
#include "tests/unit/http/api_document.hpp"
#include "tests/unit/http/fake_codec.hpp"

namespace troupe::openai {

namespace {

using http_test::name_in;
using http_test::quoted_in;
using http_test::read_source;
using http_test::rows_of;
using ::testing::IsEmpty;

request_limits endpoint_limits() {
  request_limits result;
  result.max_model_len = 100;
  result.vocab_size = http_test::vocab_size;
  result.trust_chat_template = true;
  return result;
}

/// An endpoint for requests with text, and its smallest valid request.
struct endpoint_case {
  const char* subject;
  json least;
  std::function<void(const std::string&)> parse;
};

const std::vector<endpoint_case>& endpoints() {
  static const json chat = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  static const std::vector<endpoint_case> all = {
      {"completions",
       {{"prompt", "a"}},
       [](const auto& body) { parse_completion_request(body, endpoint_limits()); }},
      {"chat", chat, [](const auto& body) { parse_chat_completion_request(body, endpoint_limits()); }},
      {"tokenize",
       {{"prompt", "a"}},
       [](const auto& body) { parse_tokenize_request(body, endpoint_limits()); }},
      {"detokenize",
       {{"tokens", {1}}},
       [](const auto& body) { parse_detokenize_request(body, endpoint_limits()); }},
  };
  return all;
}

/// The smallest request with this value in this field: "stream_options.include_usage", "messages[].role".
json with(const endpoint_case& endpoint, const std::string& field, const json& value) {
  json body = endpoint.least;
  if (field.starts_with("stream_options"))
    body["stream"] = true;
  if (field == "messages")
    body.erase("prompt"); // of /tokenize, which takes one of the two
  const std::string path =
      "/"
      + std::regex_replace(std::regex_replace(field, std::regex(R"(\[\])"), "/0"), std::regex(R"(\.)"), "/");
  body[json::json_pointer(path)] = value;
  return body;
}

/// The parser's error for a body; status 200 if it accepts it.
api_error answer_to(const endpoint_case& endpoint, const json& body) {
  try {
    endpoint.parse(body.dump());
  } catch (const api_error& error) {
    return error;
  }
  return api_error(200, "", "accepted");
}

std::string in_errors(const std::string& field) {
  return std::regex_replace(field, std::regex(R"(\[\])"), "[0]");
}

/// A value of none of these types.
std::optional<json> of_another_type(const std::string& types) {
  if (types == "any")
    return std::nullopt;
  return types.find("string") == std::string::npos ? json("x") : json(1);
}

/// The two ends of "-2 to 2".
std::optional<std::pair<double, double>> range_of(const std::string& values) {
  std::smatch ends;
  if (!std::regex_match(values, ends, std::regex(R"((-?[0-9.]+) to (-?[0-9.]+))")))
    return std::nullopt;
  return std::pair(std::stod(ends[1]), std::stod(ends[2]));
}

json number_of(double value, bool is_integer) {
  return is_integer ? json(static_cast<std::int64_t>(value)) : json(value);
}

void expect_range(const endpoint_case& endpoint, const std::string& field, bool is_integer,
                  std::pair<double, double> ends) {
  const auto [least, most] = ends;
  const double step = is_integer ? 1 : 0.001 * (most - least);
  for (const double outside : {least - step, most + step}) {
    const auto refusal = answer_to(endpoint, with(endpoint, field, number_of(outside, is_integer)));
    EXPECT_EQ(refusal.status, 400U) << field << " " << outside;
    EXPECT_EQ(refusal.param, field) << refusal.what();
  }
  for (const double end : {least, most}) {
    const auto answer = answer_to(endpoint, with(endpoint, field, number_of(end, is_integer)));
    EXPECT_EQ(std::string(answer.what()).find("must be between"), std::string::npos) << answer.what();
  }
}

void expect_row(const endpoint_case& endpoint, const std::vector<std::string>& row) {
  ASSERT_EQ(row.size(), 5U) << row[0];
  const std::string field = name_in(row[0]);
  SCOPED_TRACE(std::string(endpoint.subject) + ": " + field);
  ASSERT_FALSE(field.empty());
  if (const auto strange = of_another_type(row[1])) {
    const auto refusal = answer_to(endpoint, with(endpoint, field, *strange));
    EXPECT_EQ(refusal.param, in_errors(field))
        << "there is no such field, or " << strange->dump() << " is of its type: " << refusal.what();
    EXPECT_EQ(refusal.status, row[4].find("another type is a 422") != std::string::npos ? 422U : 400U);
  } else {
    const auto refusal = answer_to(endpoint, with(endpoint, field, {{"x", 1}}));
    EXPECT_EQ(refusal.status, 422U);
    EXPECT_EQ(refusal.param, field);
  }
  if (row[1] == "integer" || row[1] == "number") {
    const auto answer = answer_to(endpoint, with(endpoint, field, 0.5));
    EXPECT_EQ(std::string(answer.what()).find("must be an integer") != std::string::npos, row[1] == "integer")
        << answer.what();
  }
  if (const auto ends = range_of(row[2]))
    expect_range(endpoint, field, row[1] == "integer", *ends);
}

/// The names of all fields in the tables of these kinds, without the part before their last dot.
std::set<std::string> documented_names() {
  std::set<std::string> names;
  for (const char* kind : {"request", "refused", "ignored"})
    for (const auto& row : rows_of(kind)) {
      const std::string name = name_in(row[0]);
      names.insert(name.substr(name.rfind('.') + 1));
    }
  return names;
}

/// Names that parsers read, found in a source: in calls of `fields`, and in lists of names for loops.
std::set<std::string> names_read_in(const std::string& source) {
  static const std::regex calls(
      R"re((?:\.(?:boolean|integer|number|string|array|object|find|text|texts)\(|(?:number_or|parse_token_count)\(\w+, )"(\w+)")re");
  static const std::regex loops(R"re(for \(const char\* \w+ : \{([^}]*)\})re");
  static const std::regex words(R"re("(\w+)")re");
  std::set<std::string> names;
  const auto add = [&names](const std::string& text, const std::regex& pattern) {
    for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
      names.insert((*at)[1]);
  };
  add(source, calls);
  for (std::sregex_iterator at(source.begin(), source.end(), loops), end; at != end; ++at)
    add((*at)[1], words);
  return names;
}

/// Calls of `fields` whose name is not a literal.
std::set<std::string> other_calls_in(const std::string& source) {
  static const std::regex calls(
      R"re((?:in|inner|body|values|all|of|of_)\.(?:boolean|integer|number|string|array|object|find)\(([^")][^,;)]*))re");
  std::set<std::string> found;
  for (std::sregex_iterator at(source.begin(), source.end(), calls), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

const std::vector<std::string> parsers = {
    "services/gateway/openai/chat_request.cpp",     "services/gateway/openai/completion_request.cpp",
    "services/gateway/openai/conversation.cpp",     "services/gateway/openai/generation_options.cpp",
    "services/gateway/openai/tokenize_request.cpp", "services/gateway/openai/unserved_fields.cpp",
    "services/gateway/http/placement_command.cpp",  "services/gateway/http/trace_page.cpp",
};

} // namespace

TEST(api_requests, every_documented_field_is_read_as_its_row_says) {
  for (const endpoint_case& endpoint : endpoints())
    for (const auto& row : rows_of("request", endpoint.subject))
      expect_row(endpoint, row);
}

TEST(api_requests, every_field_that_is_read_is_documented) {
  // Parts of messages and calls, and names read from objects other than a request; the document's text
  // describes them.
  const std::set<std::string> told_in_text = {"type", "text", "refusal", "arguments", "function"};
  const std::set<std::string> documented = documented_names();
  for (const std::string& file : parsers) {
    std::vector<std::string> missing;
    for (const std::string& name : names_read_in(read_source(file)))
      if (!documented.contains(name) && !told_in_text.contains(name))
        missing.push_back(name);
    EXPECT_THAT(missing, IsEmpty()) << file << ": docs/api.md has no row for these fields";
  }
}

TEST(api_requests, names_of_fields_can_be_read_in_the_sources) {
  // All of these are known: the keys of logit_bias, the table of unserved fields, loops over names, and the
  // part of a message that is a text or a refusal.
  const std::set<std::string> known = {"key.c_str(", "field.name", "field.served", "name",
                                       "type == \"text\" ? \"text\" : \"refusal\""};
  for (const std::string& file : parsers)
    for (const std::string& argument : other_calls_in(read_source(file)))
      EXPECT_TRUE(known.contains(argument)) << file << ": a field is looked for by '" << argument
                                            << "'; write its name there, or teach this test";
  EXPECT_THAT(
      names_read_in(R"(a.boolean("x"); for (const char* n : {"y", "z"}) parse_token_count(in, "w", 1);)"),
      ::testing::ElementsAre("w", "x", "y", "z"));
}

TEST(api_requests, ignored_fields_are_accepted_whatever_they_hold) {
  for (const endpoint_case& endpoint : {endpoints()[0], endpoints()[1]})
    for (const auto& row : rows_of("ignored", endpoint.subject)) {
      const auto answer = answer_to(endpoint, with(endpoint, name_in(row[0]), {{"x", 1}}));
      EXPECT_EQ(answer.status, 200U) << row[0];
    }
}

TEST(api_requests, refused_fields_are_those_of_the_table) {
  std::map<std::string, std::pair<std::string, std::vector<std::string>>> documented;
  for (const auto& row : rows_of("refused"))
    documented[name_in(row[0])] = {row[1], quoted_in(row[2])};
  for (const unserved_field& field : unserved_fields()) {
    std::vector<std::string> neutral;
    std::istringstream values{std::string(field.neutral)};
    for (std::string value; values >> value;)
      neutral.push_back(value);
    const auto found = documented.find(field.name);
    ASSERT_NE(found, documented.end()) << "docs/api.md lacks the row of " << field.name;
    EXPECT_EQ(found->second, std::pair(std::string(field.feature), neutral)) << field.name;
    documented.erase(found);
    for (const endpoint_case& endpoint : {endpoints()[0], endpoints()[1]}) {
      EXPECT_EQ(answer_to(endpoint, with(endpoint, field.name, {{"x", 1}})).status, 422U) << field.name;
      for (const std::string& value : neutral)
        EXPECT_EQ(answer_to(endpoint, with(endpoint, field.name, json::parse(value))).status, 200U)
            << field.name << " " << value;
    }
  }
  for (const auto& [name, row] : documented)
    ADD_FAILURE() << "docs/api.md says that " << name << " is refused; there is no such field";
}

} // namespace troupe::openai
