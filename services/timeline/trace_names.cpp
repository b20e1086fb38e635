#include "services/timeline/trace_names.hpp"

#include <algorithm>

#include "services/timeline/event_forms.hpp"

namespace troupe {

namespace {

using timeline::event_kind;

/// Most requests of one event; more would be repetitive.
constexpr std::size_t most_requests = 8;

void add(std::vector<std::uint64_t>& keys, std::uint64_t key) {
  if (keys.size() < most_requests && std::find(keys.begin(), keys.end(), key) == keys.end())
    keys.push_back(key);
}

} // namespace

std::string hex_text(std::uint64_t number) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; number >>= 4)
    text[i] = digits[number & 15];
  return text;
}

trace_names::trace_names(const std::vector<trace_log>& logs) {
  for (std::size_t log = 0; log < logs.size(); ++log)
    for (const auto& [what, thread, text] : logs[log].events)
      if (what.kind == event_kind::request_name)
        requests_[what.id] = {text, hex_text(what.args[1]) + hex_text(what.args[2]),
                              what.args[3] == 0 ? "" : hex_text(what.args[3])};
      else if (what.kind == event_kind::worker_name)
        workers_[what.id] = text;
      else if (what.kind == event_kind::iteration)
        add(batches_[what.args[2]], what.id);
      else if (what.kind == event_kind::send_batch)
        flows_[what.id] = what.args[0];
      else if (what.kind == event_kind::host_batch)
        add(steps_[{log, what.args[4]}], what.id);
}

const trace_names::request* trace_names::find(std::uint64_t key) const {
  const auto found = requests_.find(key);
  return found == requests_.end() ? nullptr : &found->second;
}

std::string trace_names::worker(std::uint64_t id) const {
  const auto found = workers_.find(id);
  return found == workers_.end() ? hex_text(id) : found->second;
}

std::vector<std::uint64_t> trace_names::of_batch(std::uint64_t batch) const {
  const auto found = batches_.find(batch);
  return found == batches_.end() ? std::vector<std::uint64_t>{} : found->second;
}

std::vector<std::uint64_t> trace_names::of_flow(std::uint64_t flow) const {
  const auto found = flows_.find(flow);
  return found == flows_.end() ? std::vector<std::uint64_t>{} : of_batch(found->second);
}

std::vector<std::uint64_t> trace_names::requests_of(std::size_t log, const timeline::event& what) const {
  const auto* form = form_of(what.kind);
  if (form != nullptr && form->is_of_request)
    return {what.id};
  switch (what.kind) {
  case event_kind::micro_batch:
  case event_kind::attention_step:
  case event_kind::expert_wait:
    return of_batch(what.id);
  case event_kind::send_batch:
  case event_kind::expert_batch:
  case event_kind::take_answer:
  case event_kind::accept_batch:
  case event_kind::host_batch:
  case event_kind::answer_batch:
    return of_flow(what.id);
  case event_kind::expert_step: {
    std::vector<std::uint64_t> keys;
    if (const auto found = steps_.find({log, what.id}); found != steps_.end())
      for (const auto flow : found->second)
        for (const auto key : of_flow(flow))
          add(keys, key);
    return keys;
  }
  default:
    return {};
  }
}

} // namespace troupe
