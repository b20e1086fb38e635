#include "actors/attention/flight_ledger.hpp"

#include <algorithm>

namespace troupe {

bool layer_flight::answer(std::vector<std::uint32_t> slots, payload rows, std::uint64_t compute_ns,
                          time_point now) {
  const auto before = missing;
  for (auto& slot : slots) {
    if (is_answered[slot]) {
      slot = expert_outputs::unused;
    } else {
      is_answered[slot] = true;
      --missing;
    }
  }
  if (missing == before)
    return false;
  progress = now;
  expert_ns = std::max(expert_ns, compute_ns);
  outputs.push_back({std::move(rows), std::move(slots)});
  return true;
}

std::vector<expert_entries> layer_flight::unanswered(const host_share& share) const {
  std::vector<expert_entries> result;
  for (std::size_t i = 0; i < share.experts.size(); ++i) {
    expert_entries entries;
    entries.expert = share.experts[i];
    for (auto entry = share.offsets[i]; entry < share.offsets[i + 1]; ++entry)
      if (!is_answered[share.slots[entry]])
        entries.slots.push_back(share.slots[entry]);
    if (!entries.slots.empty())
      result.push_back(std::move(entries));
  }
  return result;
}

std::vector<expert_entries> layer_flight::take_parked() {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_expert;
  for (const auto& [expert, slots] : std::exchange(parked, {}))
    for (const auto slot : slots)
      if (!is_answered[slot]) // a late answer may have come
        by_expert[expert].push_back(slot);
  std::vector<expert_entries> result;
  for (auto& [expert, slots] : by_expert) {
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    result.push_back({expert, std::move(slots)});
  }
  return result;
}

layer_flight& flight_ledger::begin(std::uint32_t micro_batch, moe_dispatch dispatch, std::uint64_t trace,
                                   time_point now) {
  auto& present = flights_[micro_batch];
  present = {};
  present.micro_batch = micro_batch;
  present.serial = ++last_serial_;
  present.trace = trace;
  present.progress = now;
  present.missing = dispatch.slots.size();
  present.is_answered.assign(dispatch.slots.size(), false);
  present.dispatch = std::move(dispatch);
  return present;
}

layer_flight* flight_ledger::find(std::uint32_t micro_batch) {
  const auto found = flights_.find(micro_batch);
  return found == flights_.end() ? nullptr : &found->second;
}

layer_flight* flight_ledger::flight_of(const sent_batch& batch) {
  auto* present = find(batch.micro_batch);
  return present != nullptr && present->serial == batch.serial ? present : nullptr;
}

std::vector<std::uint32_t> flight_ledger::parked() const {
  std::vector<std::uint32_t> result;
  for (const auto& [micro_batch, present] : flights_)
    if (!present.parked.empty())
      result.push_back(micro_batch);
  return result;
}

sent_batch* flight_ledger::batch(std::uint64_t number) {
  const auto found = sent_.find(number);
  return found == sent_.end() ? nullptr : &found->second;
}

std::optional<sent_batch> flight_ledger::take(std::uint64_t number) {
  auto taken = sent_.extract(number);
  return taken ? std::optional{std::move(taken.mapped())} : std::nullopt;
}

std::vector<std::uint64_t> flight_ledger::sent_to(worker_id host) const {
  std::vector<std::uint64_t> result;
  for (const auto& [number, batch] : sent_)
    if (batch.host == host)
      result.push_back(number);
  return result;
}

flight_ledger::late_batches flight_ledger::find_late(const lateness_policy& lateness, time_point now) {
  late_batches result;
  std::erase_if(
      sent_, [&](const auto& entry) { return entry.second.repeated && flight_of(entry.second) == nullptr; });
  for (const auto& [number, batch] : sent_) {
    if (batch.repeated)
      continue;
    const auto* present = flight_of(batch);
    const auto age = now - batch.since;
    if (age >= lateness.patience(batch.num_rows(), present == nullptr ? 0 : present->repeats))
      result.overdue.push_back(number);
    else if (!batch.hedged && age >= lateness.hedge_after(batch.num_rows()))
      result.late.push_back(number);
  }
  return result;
}

} // namespace troupe
