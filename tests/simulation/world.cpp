#include "tests/simulation/world.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::simulation {

namespace {

constexpr std::uint64_t most_messages_at_once = 1'000'000;

} // namespace

process& world::start(const std::string& machine, const std::string& fingerprint) {
  if (find(machine) != nullptr)
    throw std::logic_error("there is a process on " + machine + " already");
  processes_.push_back(std::make_unique<process>(network_, machine, ++num_started_, fingerprint));
  return *processes_.back();
}

void world::end(const std::string& machine, ending how) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& one) { return one->machine() == machine; });
  if (found == processes_.end())
    return;
  const auto victim = std::move(*found);
  processes_.erase(found);
  victim->end(how);
}

process* world::find(const std::string& machine) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& one) { return one->machine() == machine; });
  return found == processes_.end() ? nullptr : found->get();
}

bool world::run_one() {
  std::size_t ready = 0;
  for (const auto& one : processes_)
    ready += one->has_job() ? 1 : 0;
  if (ready == 0)
    return false;
  auto chosen = ready == 1 ? 0 : dice_.below(static_cast<std::uint32_t>(ready));
  for (const auto& one : processes_)
    if (one->has_job() && chosen-- == 0) {
      one->catch_up();
      one->run_job(dice_);
      ++messages_;
      return true;
    }
  return false;
}

bool world::move(time_point limit) {
  process* first = nullptr;
  auto due = agenda_.is_empty() ? time_point::max() : agenda_.next();
  for (const auto& one : processes_)
    if (const auto timeout = one->next_timeout(); timeout && *timeout < due) {
      due = *timeout;
      first = one.get();
    }
  if (due > limit)
    return false;
  agenda_.move(std::max(due, agenda_.now()));
  if (first != nullptr)
    first->catch_up();
  else
    agenda_.take()();
  return true;
}

bool world::run_until(const std::function<bool()>& done, duration limit) {
  const auto end = agenda_.now() + limit;
  for (std::uint64_t at_once = 0; !done();) {
    // What is due now may come before, between or behind what is ready now.
    const bool is_due = !agenda_.is_empty() && agenda_.next() <= agenda_.now();
    if (!(is_due && dice_.one_in(2)) && run_one()) {
      if (++at_once == most_messages_at_once)
        throw std::logic_error("actors keep each other busy without time moving");
      continue;
    }
    const auto before = agenda_.now();
    if (!move(end)) {
      agenda_.move(std::max(end, agenda_.now()));
      return done();
    }
    if (agenda_.now() != before)
      at_once = 0;
  }
  return true;
}

void world::run_some(std::uint32_t messages) {
  while (messages > 0 && run_one())
    --messages;
}

} // namespace troupe::simulation
