#include "services/gateway/openai/stop_matcher.hpp"

#include <algorithm>

namespace troupe::openai {

stop_matcher::stop_matcher(const std::vector<std::string>& stops, bool include_stop)
    : include_stop_(include_stop) {
  for (const std::string& stop : stops) {
    automaton machine;
    machine.pattern = stop;
    machine.fallback.assign(stop.size(), 0);
    for (std::size_t i = 1, border = 0; i < stop.size(); ++i) {
      while (border > 0 && stop[i] != stop[border])
        border = machine.fallback[border - 1];
      if (stop[i] == stop[border])
        ++border;
      machine.fallback[i] = border;
    }
    machines_.push_back(std::move(machine));
  }
}

void stop_matcher::advance(automaton& machine, char byte) {
  // A complete match that did not count continues as its longest border.
  if (machine.matched == machine.pattern.size())
    machine.matched = machine.fallback[machine.matched - 1];
  while (machine.matched > 0 && machine.pattern[machine.matched] != byte)
    machine.matched = machine.fallback[machine.matched - 1];
  if (machine.pattern[machine.matched] == byte)
    ++machine.matched;
}

std::string stop_matcher::release(std::size_t bytes) {
  std::string text = held_.substr(0, bytes);
  held_.erase(0, bytes);
  return text;
}

std::string stop_matcher::push(std::string_view text, bool may_stop) {
  if (found_)
    return {};
  for (const char byte : text) {
    held_ += byte;
    const automaton* complete = nullptr;
    for (automaton& machine : machines_) {
      advance(machine, byte);
      const std::size_t length = machine.pattern.size();
      if (machine.matched == length && (complete == nullptr || length > complete->pattern.size()))
        complete = &machine;
    }
    if (complete == nullptr || !may_stop)
      continue;
    found_ = complete->pattern;
    std::string result = release(held_.size() - (include_stop_ ? 0 : complete->pattern.size()));
    held_.clear();
    return result;
  }
  std::size_t keep = 0;
  for (const automaton& machine : machines_) {
    const bool complete = machine.matched == machine.pattern.size();
    keep = std::max(keep, complete ? machine.fallback[machine.matched - 1] : machine.matched);
  }
  return release(held_.size() - keep);
}

std::string stop_matcher::flush() {
  return release(held_.size());
}

} // namespace troupe::openai
