#include <charconv>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <thread>

#include <nlohmann/json.hpp>

#include "services/client/gateway_client.hpp"
#include "services/options/command_table.hpp"
#include "services/options/option_parser.hpp"
#include "services/troupe/commands.hpp"
#include "services/troupe/placement_table.hpp"

namespace troupe {

namespace {

using arguments_type = std::vector<std::string>;
using nlohmann::json;

constexpr auto page = "/cluster/placement";
/// A plan may take minutes; the gateway gives up before that and says so.
constexpr auto command_deadline = std::chrono::seconds{360};
constexpr auto poll_interval = std::chrono::seconds{1};

/// Flags of the actions; each has some of them.
struct action_flags {
  server_flags gateway;
  bool as_json = false;
  bool dry_run = false;
  std::string layer;
  std::string expert;
  std::string from;
  std::string to;
  std::string replicas;
  std::string worker;
  std::string file;
  std::vector<std::string> hosts;
};

const std::string& given(const std::string& value, const char* flag) {
  if (value.empty())
    throw option_error(std::string("--") + flag + " is missing");
  return value;
}

std::uint32_t whole_number(const std::string& text, const char* flag) {
  given(text, flag);
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end)
    throw option_error(std::string("--") + flag + ": '" + text + "' is not a whole number");
  return value;
}

/// What an action declares beside the flags of all, and what it asks for.
struct action {
  const char* summary;
  std::function<void(option_parser&, action_flags&)> declare;
  std::function<void(json&, const action_flags&)> fill;
};

void declare_expert(option_parser& parser, action_flags& flags) {
  parser.text("layer", "N", "the expert's layer", &flags.layer);
  parser.text("expert", "N", "its number in the layer", &flags.expert);
}

void fill_expert(json& body, const action_flags& flags) {
  body["layer"] = whole_number(flags.layer, "layer");
  body["expert"] = whole_number(flags.expert, "expert");
}

void declare_worker(option_parser& parser, action_flags& flags) {
  parser.text("worker", "NAME", "an expert worker, as `troupe status` names it", &flags.worker);
}

void fill_worker(json& body, const action_flags& flags) {
  body["worker"] = given(flags.worker, "worker");
}

json read_experts(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw std::runtime_error("cannot read " + file);
  json content = json::parse(std::string(std::istreambuf_iterator<char>(in), {}), nullptr,
                             /*allow_exceptions=*/false);
  if (content.is_object() && content.contains("experts")) {
    json experts = std::move(content["experts"]);
    content = std::move(experts);
  }
  if (!content.is_array()) {
    throw std::runtime_error(
        file + R"( is no list of experts; write [{"layer": 3, "expert": 5, "hosts": ["expert-0"]}, ...])");
  }
  return content;
}

const std::vector<std::pair<std::string, action>>& actions() {
  const auto nothing = [](auto&, auto&) {};
  static const std::vector<std::pair<std::string, action>> all = {
      {"rebalance", {"Plans now, and carries out what gains anything.", nothing, nothing}},
      {"move",
       {"Moves one expert from a worker to another one.",
        [](option_parser& parser, action_flags& flags) {
          declare_expert(parser, flags);
          parser.text("from", "NAME", "the worker that has it", &flags.from);
          parser.text("to", "NAME", "the worker that gets it", &flags.to);
        },
        [](json& body, const action_flags& flags) {
          fill_expert(body, flags);
          body["from"] = given(flags.from, "from");
          body["to"] = given(flags.to, "to");
        }}},
      {"replicate",
       {"Gives one expert so many workers from now on.",
        [](option_parser& parser, action_flags& flags) {
          declare_expert(parser, flags);
          parser.text("replicas", "N", "how many workers hold it", &flags.replicas);
        },
        [](json& body, const action_flags& flags) {
          fill_expert(body, flags);
          body["replicas"] = whole_number(flags.replicas, "replicas");
        }}},
      {"pin",
       {"Keeps one expert on exactly these workers from now on.",
        [](option_parser& parser, action_flags& flags) {
          declare_expert(parser, flags);
          parser.list("hosts", "NAMES", "the workers, with commas between them", &flags.hosts,
                      [](const std::string& entry, const std::string&) { return entry; });
        },
        [](json& body, const action_flags& flags) {
          fill_expert(body, flags);
          if (flags.hosts.empty())
            throw option_error("--hosts is missing");
          body["hosts"] = flags.hosts;
        }}},
      {"unpin", {"Ends what `pin` or `replicate` said of one expert.", declare_expert, fill_expert}},
      {"drain",
       {"Takes all experts off a worker, and gives it none from now on.", declare_worker, fill_worker}},
      {"undrain", {"Lets a drained worker take experts again.", declare_worker, fill_worker}},
      {"assign",
       {"Gives experts exactly the workers that a file names; they may move later.",
        [](option_parser& parser, action_flags& flags) {
          parser.positional("FILE", R"(JSON: [{"layer": 3, "expert": 5, "hosts": ["expert-0"]}, ...])",
                            &flags.file);
        },
        [](json& body, const action_flags& flags) { body["experts"] = read_experts(flags.file); }}},
      {"pause",
       {"Ends the change that is under way, and lets nothing change by itself from now on.", nothing,
        nothing}},
      {"resume", {"Lets experts change their workers by themselves again.", nothing, nothing}},
  };
  return all;
}

int run_action(const std::string& name, const action& what, const arguments_type& arguments) {
  action_flags flags;
  option_parser parser("troupe placement " + name, what.summary);
  flags.gateway.declare(parser);
  what.declare(parser, flags);
  parser.toggle("dry-run", "say what it would do, and do nothing", &flags.dry_run);
  parser.toggle("json", "print the whole answer, as JSON", &flags.as_json);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  json body{{"action", name}};
  what.fill(body, flags);
  if (flags.dry_run)
    body["dry_run"] = true;
  const std::string answer = post_to(flags.gateway, page, body.dump(), command_deadline);
  std::cout << (flags.as_json ? answer + "\n" : change_table(answer));
  return 0;
}

int show(const arguments_type& arguments) {
  server_flags gateway;
  bool as_json = false;
  option_parser parser(
      "troupe placement",
      "Shows what the planner of a running cluster does; 'troupe placement help' lists what it "
      "can be told.");
  gateway.declare(parser);
  parser.toggle("json", "print all there is, as JSON", &as_json);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  const std::string state = get_from(gateway, page);
  std::cout << (as_json ? state + "\n" : placement_table(state));
  return 0;
}

int wait(const arguments_type& arguments) {
  server_flags gateway;
  std::uint32_t timeout = 600;
  option_parser parser("troupe placement wait",
                       "Waits until no change of the placement is under way. Exits with 1 when the last one "
                       "gave up moves.");
  gateway.declare(parser);
  parser.number("timeout", "seconds after which it gives up", &timeout, 1, 1U << 24);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{timeout};
  for (;;) {
    std::string under_way;
    try {
      const std::string state = get_from(gateway, page);
      under_way = change_under_way(state);
      if (under_way.empty()) {
        std::cout << placement_table(state);
        return moves_given_up(state) == 0 ? 0 : 1;
      }
      under_way = "change " + under_way;
    } catch (const refused_by_gateway& refusal) {
      if (refusal.status != 503)
        throw;
      under_way = refusal.what(); // a standby may be taking over
    }
    if (std::chrono::steady_clock::now() + poll_interval > end) {
      throw std::runtime_error("not over after " + std::to_string(timeout) + " s: " + under_way
                               + "; wait longer with --timeout, or end it with 'troupe placement pause'");
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

} // namespace

int placement_commands(const std::vector<std::string>& arguments) {
  std::vector<command> commands;
  for (const auto& [name, what] : actions()) {
    commands.push_back(
        {name, name == "assign" ? "FILE" : "", what.summary,
         [&name = name, &what = what](const arguments_type& rest) { return run_action(name, what, rest); }});
  }
  commands.push_back({"wait", "", "Waits until no change is under way.", wait});
  return command_table("troupe placement", std::move(commands),
                       "Without a command it shows what the planner is doing.\n")
      .otherwise(show)
      .run(arguments);
}

} // namespace troupe
