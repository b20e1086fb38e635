#include "services/options/environment.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <unistd.h>

#include "services/options/role_options.hpp"

namespace troupe {

namespace {

/// Names of flags that no server has but other programs do, so that their variables may be set.
/// tests/unit/services/command_flags_test.cpp compares with what the commands declare.
constexpr auto elsewhere = std::to_array<std::string_view>(
    {// flags of troupe status, top, placement, quantize, tokenize, trace and tune
     "ca-file", "clocks", "dry-run", "expert", "from", "hosts", "insecure", "interval", "json", "layer",
     "once", "out", "sample", "seconds", "special-tokens", "targets", "text", "to", "url", "worker",
     // flags of troupe-load
     "burstiness", "duration", "goodput", "heldout", "max-concurrency", "model", "num-prompts", "output",
     "prompts", "random-input-len", "random-output-len", "random-vocab-size", "request-rate", "save-detailed",
     "seed", "temperature", "timeout",
     // no flags: tests/run.sh and the tests of golden answers read these
     "fuzz-seconds", "fuzz-seed", "test-jobs", "write-golden"});

/// Removes `end` from the end of `text`. @returns false when `text` ends otherwise
bool take_end(std::string_view& text, std::string_view end) {
  bool has = text.size() > end.size() && text.ends_with(end);
  if (has)
    text.remove_suffix(end.size());
  return has;
}

bool is_link_url(std::string_view value) {
  return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

/// <SERVICE>_PORT_<number>_<protocol>, optionally followed by _PROTO, _PORT or _ADDR.
bool is_port_of_service(std::string_view name) {
  for (std::string_view end : {"_PROTO", "_PORT", "_ADDR"})
    if (take_end(name, end))
      break;
  if (!take_end(name, "_TCP") && !take_end(name, "_UDP") && !take_end(name, "_SCTP"))
    return false;
  auto digits = std::find_if(name.rbegin(), name.rend(), [](char c) { return c < '0' || c > '9'; });
  auto count = static_cast<std::size_t>(digits - name.rbegin());
  name.remove_suffix(count);
  return count > 0 && name.ends_with("_PORT_");
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// The flags of all servers and of `troupe up`.
option_parser every_flag_of_servers() {
  option_parser parser("troupe", "");
  static model_options model;
  static gateway_options gateway;
  static attention_options attention;
  static expert_options expert;
  static scheduler_options scheduler;
  static cluster_options cluster;
  static up_options up;
  static log_options logs;
  static trace_options traces;
  model.declare(parser);
  gateway.declare(parser);
  attention.declare(parser);
  expert.declare(parser);
  scheduler.declare(parser);
  cluster.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/false);
  up.declare(parser);
  logs.declare(parser);
  traces.declare(parser);
  return parser;
}

/// Whether a server or another program reads the variable of this flag.
bool is_known(const option_parser& servers, std::string_view flag) {
  return servers.has(flag) || std::find(elsewhere.begin(), elsewhere.end(), flag) != elsewhere.end();
}

} // namespace

bool is_service_link(std::string_view name, std::string_view value) {
  return name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT")
         || name.find("_SERVICE_PORT_") != std::string_view::npos || is_port_of_service(name)
         || (name.ends_with("_PORT") && is_link_url(value));
}

unread_variables find_unread_variables(const option_parser& parser) {
  unread_variables found;
  option_parser servers = every_flag_of_servers();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("TROUPE_"))
      continue;
    std::string_view value = text.substr(std::min(name.size() + 1, text.size()));
    std::string flag(name.substr(std::string_view{"TROUPE_"}.size()));
    std::transform(flag.begin(), flag.end(), flag.begin(), [](char c) {
      return c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    });
    if (is_service_link(name, value))
      found.service_links.emplace_back(name);
    else if (!parser.has(flag) && !is_known(servers, flag))
      found.unknown.emplace_back(name);
  }
  return found;
}

std::vector<std::string> unread_variables::notes() const {
  std::vector<std::string> notes;
  if (!service_links.empty())
    notes.push_back("ignored, since Kubernetes sets them for a Service: " + joined(service_links));
  if (!unknown.empty())
    notes.push_back("no flag is set by " + joined(unknown) + "; misspelt?");
  return notes;
}

void unread_variables::remove() const {
  for (const auto* names : {&service_links, &unknown})
    for (const auto& name : *names)
      unsetenv(name.c_str());
}

} // namespace troupe
