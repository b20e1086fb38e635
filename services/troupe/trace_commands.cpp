#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include <nlohmann/json.hpp>

#include "services/client/gateway_client.hpp"
#include "services/client/terminal_text.hpp"
#include "services/options/command_table.hpp"
#include "services/options/option_parser.hpp"
#include "services/timeline/trace_clocks.hpp"
#include "services/timeline/trace_json.hpp"
#include "services/timeline/trace_reader.hpp"
#include "services/troupe/commands.hpp"

namespace troupe {

namespace {

using arguments_type = std::vector<std::string>;
using nlohmann::json;

constexpr auto trace_page = "/cluster/trace";
constexpr auto trace_deadline = std::chrono::seconds{30};

/// @returns 1 when a process does not trace as told
int tell(const server_flags& gateway, const json& body, bool as_json) {
  const std::string answer = post_to(gateway, trace_page, body.dump(), trace_deadline);
  const json receipt = json::parse(answer);
  int status = 0;
  std::string text;
  for (const auto& process : receipt.at("processes")) {
    const auto error = process.value("error", std::string{});
    status = error.empty() ? status : 1;
    text += printable(process.at("name").get<std::string>() + ": " + (error.empty() ? "done" : error)) + "\n";
  }
  std::cout << (as_json ? answer + "\n" : text);
  return status;
}

int start(const arguments_type& arguments) {
  server_flags gateway;
  double sample = 0.01;
  bool as_json = false;
  option_parser parser("troupe trace start",
                       "Starts tracing in all processes of a running cluster, into the folder that each was "
                       "given as --trace. Exits with 1 when one of them does not.");
  gateway.declare(parser);
  parser.real("sample", "share of requests to trace", &sample, 0.000001, 1);
  parser.toggle("json", "print the answer as JSON", &as_json);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  return tell(gateway, {{"action", "start"}, {"sample", sample}}, as_json);
}

int stop(const arguments_type& arguments) {
  server_flags gateway;
  bool as_json = false;
  option_parser parser("troupe trace stop", "Stops tracing in all processes of a running cluster.");
  gateway.declare(parser);
  parser.toggle("json", "print the answer as JSON", &as_json);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  return tell(gateway, {{"action", "stop"}}, as_json);
}

std::string described(const traced_process& process, const process_clock& clock) {
  std::string text =
      printable(process.name) + " (pid " + std::to_string(process.pid) + "): clock " + clock.how;
  if (clock.how == "measured") {
    text += ", " + std::to_string(clock.offset_ns / 1000) + " us ahead, within "
            + std::to_string(clock.error_ns / 1000) + " us";
  }
  return text;
}

int merge(const arguments_type& arguments) {
  std::string dir;
  std::string output;
  std::string clocks = "auto";
  option_parser parser("troupe trace merge",
                       "Makes one timeline of the traces in a folder, for ui.perfetto.dev and "
                       "chrome://tracing.");
  parser.positional("DIR", "folder with the traces of all machines", &dir);
  parser.text("output", "FILE", "file to write; default: DIR/timeline.json", &output);
  parser.choice("clocks", {"auto", "measured"},
                "alignment of clocks; auto: processes of one machine share a clock, others are aligned by "
                "their messages; measured: align all by their messages",
                &clocks);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  if (output.empty())
    output = dir + "/timeline.json";
  const auto logs = read_traces(dir);
  const auto common =
      common_clocks(logs, clocks == "auto" ? clock_source::automatic : clock_source::measured);
  std::ofstream out(output, std::ios::binary | std::ios::trunc);
  const auto merged = write_trace_json(out, logs, common);
  out.close();
  if (!out)
    throw std::runtime_error("cannot write " + output);
  for (std::size_t i = 0; i < logs.size(); ++i) {
    std::cout << described(logs[i].process, common[i]) << ", " << logs[i].events.size() << " events"
              << (logs[i].is_full ? ", stopped at --trace-max-bytes" : "")
              << (logs[i].is_cut ? ", ends in the middle of an event" : "") << "\n";
  }
  if (merged.dropped > 0)
    std::cout << merged.dropped << " events are missing: they came faster than they were written\n";
  std::cout << output << ": " << merged.events << " events, " << merged.flows << " arrows\n";
  return 0;
}

} // namespace

int trace_commands(const std::vector<std::string>& arguments) {
  return command_table("troupe trace",
                       {{"start", "", "start tracing in all processes of a running cluster", start},
                        {"stop", "", "stop it", stop},
                        {"merge", "DIR", "make one timeline of the traces in a folder", merge}})
      .run(arguments);
}

} // namespace troupe
