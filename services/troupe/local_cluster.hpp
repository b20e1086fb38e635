// The processes of a local cluster under a supervisor: their command lines, ports and order of start.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "services/log/process_log.hpp"
#include "services/troupe/run_folder.hpp"
#include "services/troupe/scrape_targets.hpp"
#include "services/troupe/supervisor.hpp"
#include "services/troupe/up_flags.hpp"

namespace troupe {

class local_cluster {
 public:
  /// @param folder  outlives this
  local_cluster(const up_flags& flags, const run_folder& folder, const process_log& log);

  /// Starts all processes, supervises them until a signal says stop, and stops them.
  /// @returns the exit status of the program
  /// @throws std::runtime_error when a process does not become ready
  int run();

 private:
  bool start_schedulers();
  void start_experts();
  void start_attention_workers();
  void start_gateways();
  void start(child_spec spec);
  std::optional<std::string> wait_ready(const std::string& name);

  child_spec child_of(const std::string& role, std::uint32_t index, std::uint32_t stop_phase,
                      std::vector<std::string> words) const;
  child_spec worker_of(const std::string& role, std::uint32_t index, std::uint32_t stop_phase,
                       std::vector<std::string> words);
  std::string next_metrics_port();

  up_flags flags_;
  const run_folder& folder_;
  process_log log_;
  std::filesystem::path programs_;            ///< the folder of this program, which has the others
  std::optional<std::uint16_t> metrics_port_; ///< of the next worker; 0: any free one; nothing: none
  std::string schedulers_;                    ///< their endpoints, with commas between them
  std::vector<std::string> names_;            ///< of all processes but schedulers
  scrape_targets scraped_;
  supervisor processes_;
};

} // namespace troupe
