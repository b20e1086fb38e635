// Which share of the requests is traced: the operator's newest command, and the one that the scheduler before
// saved. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/trace_messages.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"

namespace troupe {

class trace_desk {
 public:
  /// Keeps the command that the scheduler before saved. It applies when one of its workers joins.
  void restore(trace_command saved) { saved_ = saved; }

  /// The operator's command applies from now on, to all members and to those that join.
  operator_event command(trace_command newest);

  /// A worker joins. The first one that was in the cluster before makes the saved command apply again; a
  /// cluster that is started anew begins with its flags.
  /// @returns the event when the saved command applies from now on: all members are to be told of `current`
  std::optional<operator_event> joined(const worker_hello& hello);

  /// A view is published: a worker of the scheduler before would have joined by now.
  void published() { saved_.reset(); }

  /// The command that applies; empty: none was given.
  const std::optional<trace_command>& current() const { return current_; }

 private:
  std::optional<trace_command> current_;
  std::optional<trace_command> saved_; // until the first publication
};

/// The receipts of one trace command. It answers when it has one of each process.
class trace_answers {
 public:
  trace_answers(std::size_t num_processes, std::function<void(const trace_receipt&)> answer)
      : missing_(num_processes), answer_(std::move(answer)) {}

  void add(const trace_receipt& part);

 private:
  std::size_t missing_;
  std::function<void(const trace_receipt&)> answer_;
  trace_receipt receipt_;
};

} // namespace troupe
