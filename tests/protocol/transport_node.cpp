// A process for transport tests: listens, publishes "server", prints its endpoint, and ends with its input.
//
//    transport_node [--listen HOST:PORT] [--data-ports LO-HI] [--shm]

#include <cstdio>
#include <string>

#include <caf/send.hpp>
#include <unistd.h>

#include "tests/protocol/transport_fixture.hpp"

int main(int argc, char** argv) {
  using namespace troupe;
  auto options = test::loopback_options();
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--shm")
      options.shared_memory = true;
    else if (arg == "--listen" && i + 1 < argc)
      options.listen = argv[++i];
    else if (arg == "--data-ports" && i + 1 < argc)
      options.data_ports = argv[++i];
    else
      return 2;
  }
  test::node here{options};
  const auto server = test::spawn_server(here.system);
  here.net->publish("server", server);
  std::printf("%s\n", here.net->endpoint().c_str());
  std::fflush(stdout);
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) > 0) {
  }
  caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
  return 0;
}
