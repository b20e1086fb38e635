// docs/api.md lists exactly the existing endpoints, members and headers of answers, and codes of errors.
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "services/gateway/http/endpoints/routes.hpp"
#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/placement_command.hpp"
#include "services/gateway/http/trace_page.hpp"
#include "services/gateway/openai/api_error.hpp"
#include "tests/unit/http/api_document.hpp"
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

using names = std::set<std::string>;

names first_column(const document_table& table) {
  names result;
  for (const auto& row : table.rows)
    result.insert(name_in(row[0]));
  return result;
}

/// The paths of all values of a page: "choices[].text". Objects and arrays are represented by their content.
void add_paths(const json& value, const std::string& path, names& to) {
  if (value.is_object())
    for (const auto& [name, inner] : value.items())
      add_paths(inner, path + (path.empty() ? "" : ".") + name, to);
  else if (value.is_array())
    for (const json& inner : value)
      add_paths(inner, path + "[]", to);
  else
    to.insert(path);
}

/// "a.{name}.b" is "a.", any name, and ".b".
std::regex pattern_of(const std::string& documented) {
  const std::string escaped = std::regex_replace(documented, std::regex(R"([.\[\]])"), R"(\$&)");
  return std::regex(std::regex_replace(escaped, std::regex(R"(\{\w+\})"), "[^.]*"));
}

/// Checks that the pages of a kind together have the documented members.
void expect_members(const document_table& table, const std::vector<json>& pages) {
  SCOPED_TRACE(table.kind + " " + table.subjects.at(0));
  names found;
  for (const json& page : pages)
    add_paths(page, "", found);
  names undocumented = found;
  for (const std::string& documented : first_column(table)) {
    const std::regex pattern = pattern_of(documented);
    const auto fits = [&](const std::string& path) { return std::regex_match(path, pattern); };
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), fits)) << "no answer has " << documented;
    std::erase_if(undocumented, fits);
  }
  EXPECT_THAT(undocumented, IsEmpty()) << "docs/api.md lacks these";
}

class api_answers : public http_server_test {
 protected:
  void expect_page(const std::string& subject, const std::vector<raw_response>& answers) {
    std::vector<json> pages;
    for (const raw_response& answer : answers)
      pages.push_back(json::parse(answer.body));
    expect_members(tables_of("answer", subject).front(), pages);
  }

  /// The chunks of a stream.
  std::vector<json> chunks_of(const std::string& path, const std::string& body) const {
    std::istringstream lines(post(path, body).body);
    std::vector<json> chunks;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("data: {"))
        chunks.push_back(json::parse(line.substr(6)));
    return chunks;
  }

  static placement_change some_change() {
    placement_change change;
    change.experts = {{{3, 5}, {"expert-0"}, {"expert-1"}}};
    return change;
  }
};

/// Requests everything that choices can contain.
const std::string everything =
    R"(,"n":2,"max_tokens":3,"logprobs":2,"echo":true,"prompt_logprobs":1,"return_token_ids":true})";
const std::string everything_of_a_chat =
    R"(,"n":2,"max_tokens":3,"logprobs":true,"top_logprobs":2,"prompt_logprobs":1,"return_token_ids":true})";

/// The arguments of a call, split at its commas.
/// @param text  from after the opening parenthesis
std::vector<std::string> arguments_of(const std::string& text) {
  std::vector<std::string> arguments(1);
  int depth = 0;
  bool is_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_text && c == '\\') {
      arguments.back() += text.substr(i++, 2);
      continue;
    }
    if (c == '"')
      is_text = !is_text;
    else if (!is_text && (c == '(' || c == '{' || c == '['))
      ++depth;
    else if (!is_text && (c == ')' || c == '}' || c == ']') && depth-- == 0)
      return arguments;
    if (c == ',' && !is_text && depth == 0)
      arguments.emplace_back();
    else
      arguments.back() += c;
  }
  return arguments;
}

/// The texts in an argument: one, or the two of a conditional expression.
names words_in(const std::string& argument) {
  static const std::regex words(R"re("(\w+)")re");
  names found;
  for (std::sregex_iterator at(argument.begin(), argument.end(), words), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

/// The gateway's sources that write answers.
std::vector<std::string> answering_sources() {
  std::vector<std::string> found;
  for (const char* folder : {"services/gateway/http", "services/gateway/openai"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(TROUPE_SOURCE_DIR "/") + folder))
      if (entry.path().extension() == ".cpp")
        found.push_back(entry.path().lexically_relative(TROUPE_SOURCE_DIR).string());
  return found;
}

/// The codes in the sources, besides those of `cluster_errors`.
names codes_in_sources() {
  // The position of the code: invalid_request(message, param, code), api_error(status, type, message, param,
  // code).
  static const std::regex calls(R"((invalid_request|api_error|refused|error)\s*[({])");
  names codes;
  for (const std::string& file : answering_sources()) {
    const std::string source = read_source(file);
    for (std::sregex_iterator at(source.begin(), source.end(), calls), end; at != end; ++at) {
      const auto behind = static_cast<std::size_t>(at->position() + at->length());
      const auto arguments = arguments_of(source.substr(behind, 2000));
      const std::string name = (*at)[1];
      const std::size_t place = name == "invalid_request" ? 2 : name == "refused" ? 1 : 4;
      if (arguments.size() == place + 1)
        codes.merge(words_in(arguments[place]));
    }
  }
  return codes;
}

/// The name in the table of endpoints.
const char* word_of(http::callers who) {
  switch (who) {
  case http::callers::anybody:
    return "open";
  case http::callers::clients:
    return "needed";
  case http::callers::operators:
    return "operator's";
  }
  return "?";
}

} // namespace

TEST_F(api_answers, endpoints_are_those_of_the_table) {
  std::vector<std::string> served;
  for (const http::route& one : http::all_routes())
    served.push_back(std::string(one.post ? "POST " : "GET ") + one.path + " " + word_of(one.who));
  std::vector<std::string> documented;
  for (const auto& row : rows_of("endpoints"))
    documented.push_back(name_in(row[0]) + " " + name_in(row[1]) + " " + row[2]);
  EXPECT_THAT(documented, UnorderedElementsAreArray(served));
}

TEST_F(api_answers, of_completions) {
  serve();
  const std::string prompt = R"({"prompt":"ab")";
  expect_page("completions",
              {post("/v1/completions", prompt + "}"), post("/v1/completions", prompt + everything)});
  std::vector<json> chunks = chunks_of("/v1/completions", prompt + R"(,"stream":true})");
  for (
      const char* more :
      {R"(,"stream":true,"stream_options":{"include_usage":true},"logprobs":2,"echo":true,"return_token_ids":true})",
       R"(,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})"})
    for (json& chunk : chunks_of("/v1/completions", prompt + more))
      chunks.push_back(std::move(chunk));
  expect_members(tables_of("chunk", "completions").front(), chunks);
}

TEST_F(api_answers, of_chats) {
  serve();
  const std::string messages = R"({"messages":[{"role":"user","content":"a"}])";
  expect_page("chat", {post("/v1/chat/completions", messages + "}"),
                       post("/v1/chat/completions", messages + everything_of_a_chat)});
  std::vector<json> chunks = chunks_of("/v1/chat/completions", messages + R"(,"stream":true})");
  for (
      const char* more :
      {R"(,"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":2,"return_token_ids":true})",
       R"(,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})"})
    for (json& chunk : chunks_of("/v1/chat/completions", messages + more))
      chunks.push_back(std::move(chunk));
  expect_members(tables_of("chunk", "chat").front(), chunks);
}

TEST_F(api_answers, of_pages) {
  config.details = {{"numerics_class", "a"}, {"instruction_set", "b"}, {"model_fingerprint", "c"}};
  serve();
  expect_page("models", {get("/v1/models")});
  expect_page("tokenize", {post("/tokenize", R"({"prompt":"ab"})"),
                           post("/tokenize", R"({"prompt":"ab","return_token_strs":true})")});
  expect_page("detokenize", {post("/detokenize", R"({"tokens":[97]})")});
  expect_page("version", {get("/version")});
  expect_page("history", {get("/cluster/history")});
  const raw_response ready = get("/ready");
  backend->ready = false;
  backend->has_been_ready = false;
  expect_page("ready", {ready, get("/ready"), get("/cluster/ready")});
}

TEST_F(api_answers, of_health) {
  config.limits.late_loop = std::chrono::milliseconds{0}; // every loop is late
  serve();
  expect_page("health", {get("/health")});
}

TEST_F(api_answers, of_the_cluster) {
  serve();
  std::vector<raw_response> pages = {get("/cluster")};
  backend->with_attention_worker = true;
  pages.push_back(get("/cluster"));
  backend->scheduler_away = true;
  pages.push_back(get("/cluster"));
  expect_page("cluster", pages);
}

TEST_F(api_answers, of_placement_and_tracing) {
  serve();
  std::vector<raw_response> states = {get("/cluster/placement")};
  backend->planner.changes = {{some_change(), 1, 0, 3, 100}, {some_change(), 1, 0, 0, 100}};
  backend->planner.pins = {{{3, 5}, {"expert-0"}}};
  backend->planner.replicas = {{{3, 6}, {"2"}}};
  backend->planner.drained = {"expert-1"};
  states.push_back(get("/cluster/placement"));
  expect_page("placement", states);
  backend->obey = [](const placement_command&) { return some_change(); };
  expect_page("change", {post("/cluster/placement", R"({"action":"rebalance"})")});
  backend->trace_answer = trace_receipt{{{"expert-0", ""}, {"expert-1", "it has no folder"}}};
  expect_page("trace", {post("/cluster/trace", R"({"action":"stop"})")});
}

TEST_F(api_answers, headers_are_those_of_the_table) {
  config.keys = http::api_keys::of({{"bob", "secret-of-bob"}});
  config.key_limits.otherwise.requests_per_minute = 9;
  config.key_limits.otherwise.tokens_per_minute = 99;
  config.allowed_origins = {"https://a.example"};
  serve();
  const std::string key = "authorization: Bearer secret-of-bob\r\n";
  const std::string page = "origin: https://a.example\r\ncontent-type: application/json\r\n";
  const std::string preflight = "access-control-request-method: POST\r\n";
  const std::string stream = R"({"prompt":"a","max_tokens":1,"stream":true})";
  const auto options = connect();
  options->request("OPTIONS", "/v1/completions", {}, page + preflight);
  const auto old = connect();
  old->send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  backend->ready = false;
  const std::vector<raw_response> answers = {
      post("/v1/completions", stream, key + page),
      post("/v1/completions", R"({"prompt":"a","max_tokens":1})", key),
      post("/v1/completions", stream, key + "content-encoding: br\r\n"),
      get("/v1/models"),
      get("/v1/completions", key),
      get("/cluster/ready"),
      options->read(),
      old->read(),
  };
  names found;
  for (const raw_response& answer : answers)
    for (const auto& [name, value] : answer.headers)
      found.insert(name);
  EXPECT_THAT(found, UnorderedElementsAreArray(first_column(tables_of("headers").front())));
}

TEST_F(api_answers, codes_of_errors_are_those_of_the_table) {
  struct kind {
    unsigned status;
    std::string type;
  };

  std::map<std::string, kind> documented;
  for (const auto& row : rows_of("errors"))
    documented[name_in(row[0])] = {static_cast<unsigned>(std::stoul(row[1])), name_in(row[2])};
  names codes = codes_in_sources();
  for (const http::cluster_error& error : http::cluster_errors()) {
    codes.insert(error.name);
    const auto found = documented.find(error.name);
    ASSERT_NE(found, documented.end()) << error.name;
    EXPECT_EQ(found->second.status, error.status) << error.name;
    EXPECT_EQ(found->second.type, error.type) << error.name;
  }
  codes.insert("internal_error"); // of errors without an entry there
  codes.insert("unsupported");    // written in openai::unsupported for all
  EXPECT_THAT(codes, UnorderedElementsAreArray(first_column(tables_of("errors").front())));
}

TEST(api_orders, actions_are_those_of_the_table) {
  const auto refusal_of = [](const json& body) {
    try {
      http::parse_placement_command(body.dump());
      return std::string();
    } catch (const openai::api_error& error) {
      return std::string(error.what());
    }
  };
  std::string all = "there is no action 'dance'; there are ";
  const auto rows = rows_of("actions");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string action = name_in(rows[i][0]);
    all += (i == 0 ? "'" : i + 1 == rows.size() ? " and '" : ", '") + action + "'";
    json body = {{"action", action}};
    for (const std::string& member : quoted_in(rows[i][1])) {
      EXPECT_NE(refusal_of(body), "") << action << " does not need " << member;
      const bool is_number = member == "layer" || member == "expert" || member == "replicas";
      body[member] = is_number             ? json(1)
                     : member == "hosts"   ? json({"a"})
                     : member == "experts" ? json::array()
                                           : json("a");
    }
    EXPECT_EQ(refusal_of(body), "") << action;
  }
  EXPECT_EQ(refusal_of({{"action", "dance"}}), all);
}

TEST(api_orders, members_are_those_of_the_table) {
  const std::map<std::string, json> whole = {
      {"layer", {{"action", "unpin"}, {"layer", 1}, {"expert", 1}}},
      {"expert", {{"action", "unpin"}, {"layer", 1}, {"expert", 1}}},
      {"from", {{"action", "move"}, {"layer", 1}, {"expert", 1}, {"from", "a"}, {"to", "b"}}},
      {"to", {{"action", "move"}, {"layer", 1}, {"expert", 1}, {"from", "a"}, {"to", "b"}}},
      {"replicas", {{"action", "replicate"}, {"layer", 1}, {"expert", 1}, {"replicas", 1}}},
      {"hosts", {{"action", "pin"}, {"layer", 1}, {"expert", 1}, {"hosts", {"a"}}}},
      {"worker", {{"action", "drain"}, {"worker", "a"}}},
      {"experts", {{"action", "assign"}, {"experts", json::array()}}},
      {"dry_run", {{"action", "pause"}}},
      {"action", {{"action", "pause"}}},
  };
  const auto param_of = [](const std::string& subject, const json& body) -> std::string {
    try {
      if (subject == "trace")
        http::parse_trace_command(body.dump());
      else
        http::parse_placement_command(body.dump());
    } catch (const openai::api_error& error) {
      return error.param;
    }
    return "(it was accepted)";
  };
  for (const char* subject : {"placement", "trace"})
    for (const auto& row : rows_of("request", subject)) {
      const std::string field = name_in(row[0]);
      json body = {{"action", "start"}};
      if (subject == std::string("placement")) {
        ASSERT_TRUE(whole.contains(field)) << field << ": write down a command that has it";
        body = whole.at(field);
        EXPECT_EQ(param_of(subject, body), "(it was accepted)") << field;
      }
      body[field] = row[1] == "string" ? json(1) : json("x");
      EXPECT_EQ(param_of(subject, body), field);
    }
}

} // namespace troupe::http_test
