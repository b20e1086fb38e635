#include <chrono>
#include <utility>

#include "services/client/server_flags.hpp"
#include "services/options/option_parser.hpp"
#include "services/top/target_list.hpp"
#include "services/top/top_session.hpp"
#include "services/troupe/commands.hpp"

namespace troupe {

int top_command(const std::vector<std::string>& arguments) {
  server_flags gateway;
  double interval = 1;
  bool once = false;
  std::string targets;
  option_parser parser(
      "troupe top",
      "Shows load, latency, memory and placement of a running cluster, again and again, until q or "
      "Ctrl-C. --url names one gateway: rates and latencies are those of this gateway alone, since the "
      "screen before; everything else is the cluster's. Where standard output is no terminal, each screen "
      "is printed as text.");
  gateway.declare(parser);
  parser.real("interval", "seconds between screens", &interval, 0.1, 3600);
  parser.text("targets", "FILE",
              "also show processor time and memory of the processes in this file, which `troupe up` writes "
              "as RUN_DIR/prometheus-targets.json",
              &targets);
  parser.toggle("once", "print the figures of one interval as text and exit", &once);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  const top::session_options options{gateway.url, std::chrono::duration_cast<std::chrono::milliseconds>(
                                                      std::chrono::duration<double>(interval))};
  std::vector<top::sampler::process> processes;
  if (!targets.empty()) {
    for (const auto& one : top::read_targets(targets)) {
      processes.push_back(
          {one.role, one.process,
           parse_url(one.url, {gateway.ca_file, gateway.insecure}, "--targets: " + one.source), one.source});
    }
  }
  top::sampler source(gateway.server(), gateway.url, std::move(processes));
  if (once)
    top::print_once(std::move(source), options);
  else
    top::watch(std::move(source), options);
  return 0;
}

} // namespace troupe
