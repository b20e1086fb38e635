// troupe: serves a model in one process, supervises a local cluster, and looks at running ones.
#include "services/options/command_table.hpp"
#include "services/startup/role_main.hpp"
#include "services/troupe/commands.hpp"

namespace {

int run(const std::vector<std::string>& arguments) {
  return troupe::command_table(
             "troupe",
             {{"serve", "MODEL_DIR", "serve a model with everything in one process", troupe::serve_command},
              {"up", "MODEL_DIR", "start and supervise a local cluster of separate processes",
               troupe::up_command},
              {"status", "", "show workers, placement and load of a running cluster", troupe::status_command},
              {"top", "", "show load and latency of a running cluster, again each second",
               troupe::top_command},
              {"placement", "[COMMAND]", "show and change where the experts of a running cluster live",
               troupe::placement_commands},
              {"trace", "COMMAND", "start and stop tracing, and make a timeline of it",
               troupe::trace_commands},
              {"inspect", "MODEL_DIR|FILE", "say what a model is, what it needs, and whether it loads",
               troupe::inspect_command},
              {"quantize", "MODEL_DIR", "write a model folder with quantized weights",
               troupe::quantize_command},
              {"tune", "MODEL_DIR", "measure which CPU kernels are the fastest here for a model",
               troupe::tune_command},
              {"tokenize", "MODEL_DIR", "print the token ids of a text", troupe::tokenize_command},
              {"completion", "bash|zsh|fish", "print what makes a shell complete commands and flags",
               troupe::completion_command}},
             "The processes of a cluster by hand: troupe-scheduler, troupe-gateway, troupe-attention, "
             "troupe-expert;\n"
             "README.md has a recipe.\n")
      .about("Serves Mixture-of-Experts language models as a cluster of actors.")
      .run(arguments);
}

} // namespace

int main(int argc, char** argv) {
  return troupe::role_main("troupe", argc, argv, run);
}
