// troupe-load: sends requests to a server as users would, and measures.
#include <exception>
#include <iostream>

#include "load/commands.hpp"
#include "services/options/command_table.hpp"
#include "services/options/option_parser.hpp"
#include "services/options/standard_streams.hpp"

int main(int argc, char** argv) {
  troupe::open_standard_streams();
  try {
    return troupe::command_table(
               "troupe-load",
               {{"run", "", "send requests at a rate; report latencies and throughput",
                 troupe::load::run_command},
                {"eval", "", "perplexity and bits per byte of held-out text", troupe::load::eval_command},
                {"trace", "", "record which experts are used", troupe::load::trace_command}})
        .about("Asks a server as its users would, and measures.")
        .run({argv + 1, argv + argc});
  } catch (const troupe::description_answer& asked) {
    std::cout << troupe::to_json(asked.what) << '\n';
    return 0;
  } catch (const troupe::option_error& error) {
    std::cerr << "troupe-load: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "troupe-load: " << error.what() << '\n';
    return 1;
  }
}
