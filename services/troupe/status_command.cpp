#include <iostream>

#include "services/client/gateway_client.hpp"
#include "services/options/option_parser.hpp"
#include "services/troupe/commands.hpp"
#include "services/troupe/status_table.hpp"

namespace troupe {

int status_command(const std::vector<std::string>& arguments) {
  server_flags gateway;
  bool as_json = false;
  option_parser parser("troupe status", "Shows workers, placement and load of a running cluster.");
  gateway.declare(parser);
  parser.toggle("json", "print all there is, as JSON: every expert with its hosts", &as_json);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  std::string answer = get_from(gateway, "/cluster");
  std::cout << (as_json ? answer + "\n" : status_table(answer));
  return 0;
}

} // namespace troupe
