#include "services/troupe/up_flags.hpp"

#include <algorithm>

#include "services/options/model_folder.hpp"
#include "services/options/processors.hpp"

namespace troupe {

namespace {

void check_last_port(const std::string& flag, std::uint32_t first, std::uint32_t count,
                     const std::string& what) {
  if (first != 0 && first + count - 1 > 65535) {
    throw option_error(flag + ": " + std::to_string(count) + " " + what + " do not fit above "
                       + std::to_string(first));
  }
}

/// The flags of the groups with their present values, as command-line words.
template <class... Group>
std::vector<std::string> words_of(Group... group) {
  option_parser parser("", "");
  (group.declare(parser), ...);
  return parser.words();
}

/// The model flags of worker `index` of `count`, which computes with `threads` threads.
model_options share_of_processors(model_options model, std::uint32_t index, std::uint32_t count,
                                  std::uint32_t threads) {
  // Threads that use every processor are pinned: otherwise the kernel may put two threads of a process on one
  // processor, where they wait for each other while another processor idles.
  std::vector<int> pinned = model.cores_list();
  if (model.cores == "auto" && model.num_threads() == usable_processors().size())
    pinned = usable_processors();
  const auto own = processors_of(pinned, index, count, threads);
  model.threads = threads;
  model.cores = own.empty() ? "any" : processors_text(own);
  return model;
}

} // namespace

void up_flags::declare(option_parser& parser) {
  declare_model_folder(parser, &model.model_dir);
  up.declare(parser);
  gateway.declare(parser);
  model.declare(parser);
  attention.declare(parser);
  expert.declare(parser);
  scheduler.expert_workers = 2;
  scheduler.declare(parser, expert_worker_count::started);
  logs.declare(parser);
  traces.declare(parser);
}

void up_flags::check_ports() const {
  check_last_port("--port", gateway.port, up.gateways, "gateways");
  check_last_port("--management-port", gateway.management_port, up.gateways, "gateways");
  check_last_port("--worker-metrics-port", up.metrics_port.value_or(0),
                  up.schedulers + scheduler.expert_workers + up.attention_workers, "processes");
}

gateway_options up_flags::gateway_at(std::uint32_t index) const {
  gateway_options one = gateway;
  one.port += gateway.port == 0 ? 0 : index;
  one.management_port += gateway.management_port == 0 ? 0 : index;
  return one;
}

std::vector<std::string> up_flags::scheduler_words() const {
  scheduler_options one = scheduler;
  one.standby = up.schedulers > 1; // the first to come is active
  return words_of(one, logs, traces);
}

// Attention and expert phases alternate, so each side may use all processors; within a side they are divided.
// An expert process gets twice its share: small batches do not reach all processes evenly, and a process with
// work uses the processors of those without (docs/decisions/0002-split-cost.md).
std::vector<std::string> up_flags::expert_words(std::uint32_t index) const {
  const std::uint32_t cores = model.num_threads();
  const auto threads = std::clamp(2 * cores / scheduler.expert_workers, 1U, cores);
  return words_of(share_of_processors(model, index, scheduler.expert_workers, threads), expert, logs, traces);
}

std::vector<std::string> up_flags::attention_words(std::uint32_t index) const {
  const auto threads = std::max(1U, model.num_threads() / up.attention_workers);
  return words_of(share_of_processors(model, index, up.attention_workers, threads), attention, logs, traces);
}

std::vector<std::string> up_flags::gateway_words(std::uint32_t index) const {
  model_options tokenizer = model;
  tokenizer.threads = 1;
  tokenizer.cores = "any";
  return words_of(tokenizer, gateway_at(index), logs, traces);
}

} // namespace troupe
