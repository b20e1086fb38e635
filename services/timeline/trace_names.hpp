// The requests behind events: which requests an expert batch, a step or a micro-batch belongs to.
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
    std::string parent;   ///< the span that sent it, 16 digits; empty: none
  };

  /// Null if no process has recorded it.
  const request* find(std::uint64_t key) const;

  /// Keys of the requests of an event of process `log`; a few if there are many.
  std::vector<std::uint64_t> requests_of(std::size_t log, const timeline::event& what) const;

  /// The name of a worker; its number if no process has recorded the name.
  std::string worker(std::uint64_t id) const;

 private:
  std::vector<std::uint64_t> of_batch(std::uint64_t batch) const;
  std::vector<std::uint64_t> of_flow(std::uint64_t flow) const;

  std::map<std::uint64_t, request> requests_;
  std::map<std::uint64_t, std::string> workers_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> batches_; ///< keys by micro-batch
  std::map<std::uint64_t, std::uint64_t> flows_;                ///< micro-batch by expert batch
  std::map<std::pair<std::size_t, std::uint64_t>, std::vector<std::uint64_t>>
      steps_; ///< flows by log and step
};

/// "0123456789abcdef".
std::string hex_text(std::uint64_t number);

} // namespace troupe
