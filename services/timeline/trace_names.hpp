// Who an event belongs to: events of an expert batch, a step or a micro-batch say for which requests they
// are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "services/timeline/trace_reader.hpp"

namespace troupe {

class trace_names {
 public:
  explicit trace_names(const std::vector<trace_log>& logs);

  struct request {
    std::string id;       ///< of the HTTP request
    std::string trace_id; ///< 32 hexadecimal digits
    std::string parent;   ///< span that it was sent by, 16 digits; empty: none
  };

  /// Null where no process has told it.
  const request* find(uint64_t key) const;

  /// Keys of the requests that an event of process `log` is for; few of many.
  std::vector<uint64_t> requests_of(size_t log, const timeline::event& what) const;

  /// The name of a worker; its number where no process has told it.
  std::string worker(uint64_t id) const;

 private:
  std::vector<uint64_t> of_batch(uint64_t batch) const;
  std::vector<uint64_t> of_flow(uint64_t flow) const;

  std::map<uint64_t, request> requests_;
  std::map<uint64_t, std::string> workers_;
  std::map<uint64_t, std::vector<uint64_t>> batches_;                  ///< keys by micro-batch
  std::map<uint64_t, uint64_t> flows_;                                 ///< micro-batch by expert batch
  std::map<std::pair<size_t, uint64_t>, std::vector<uint64_t>> steps_; ///< flows by log and step
};

/// "0123456789abcdef".
std::string hex_text(uint64_t number);

} // namespace troupe
