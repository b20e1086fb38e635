#include "actors/attention/dispatch_policy.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

/// SplitMix64's finalizer: every input bit reaches every output bit.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class share_builder {
 public:
  void add(const expert_entries& entries) {
    experts_.push_back(entries.expert);
    offsets_.push_back(static_cast<std::uint32_t>(slots_.size() + entries.slots.size()));
    slots_.insert(slots_.end(), entries.slots.begin(), entries.slots.end());
  }

  std::uint64_t planned() const { return slots_.size(); }

  host_share finish(worker_id host, std::uint32_t num_topk) {
    host_share result;
    result.host = host;
    result.travelling.reserve(slots_.size());
    for (const auto slot : slots_)
      result.travelling.push_back(slot / num_topk);
    std::sort(result.travelling.begin(), result.travelling.end());
    result.travelling.erase(std::unique(result.travelling.begin(), result.travelling.end()),
                            result.travelling.end());
    result.rows.reserve(slots_.size());
    for (const auto slot : slots_) {
      const auto at = std::lower_bound(result.travelling.begin(), result.travelling.end(), slot / num_topk);
      result.rows.push_back(static_cast<std::uint32_t>(at - result.travelling.begin()));
    }
    result.experts = std::move(experts_);
    result.offsets = std::move(offsets_);
    result.slots = std::move(slots_);
    return result;
  }

 private:
  std::vector<std::uint32_t> experts_;
  std::vector<std::uint32_t> offsets_{0};
  std::vector<std::uint32_t> slots_;
};

} // namespace

void queue_news::heard(std::uint64_t queued, std::uint64_t own, time_point now) {
  rows_ = std::min<std::uint64_t>(queued - std::min(queued, own), defaults::max_queued_expert_rows);
  when_ = now;
}

std::uint64_t queue_news::rows(time_point now) const {
  const auto left = defaults::queue_news - (now - when_);
  if (rows_ == 0 || left <= left.zero())
    return 0;
  using fraction = std::chrono::duration<double>;
  return static_cast<std::uint64_t>(static_cast<double>(rows_)
                                    * (fraction{left} / fraction{defaults::queue_news}));
}

std::vector<expert_entries> entries_of(const moe_dispatch& dispatch, std::string& error) {
  const auto num_slots = std::uint64_t{dispatch.num_rows} * dispatch.num_topk;
  const auto& offsets = dispatch.offsets;
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != dispatch.slots.size()
      || dispatch.slots.size() != num_slots || !std::is_sorted(offsets.begin(), offsets.end())
      || std::any_of(dispatch.slots.begin(), dispatch.slots.end(),
                     [&](std::uint32_t slot) { return slot >= num_slots; })) {
    error = "the engine's table for layer " + std::to_string(dispatch.layer) + " is malformed";
    return {};
  }
  std::vector<expert_entries> result;
  for (std::uint32_t expert = 0; expert + 1 < offsets.size(); ++expert)
    if (offsets[expert + 1] > offsets[expert])
      result.push_back(
          {expert, {dispatch.slots.begin() + offsets[expert], dispatch.slots.begin() + offsets[expert + 1]}});
  return result;
}

dispatch_plan plan_dispatch(std::span<const expert_entries> entries, std::uint32_t layer,
                            std::uint32_t num_topk, const layer_placement& placement,
                            const host_knowledge& hosts, std::uint64_t salt) {
  dispatch_plan result;
  std::map<worker_id, share_builder> shares;
  std::vector<worker_id> usable;
  for (const auto& wanted : entries) {
    usable.clear();
    if (wanted.expert < placement.experts.size())
      for (const auto host : placement.experts[wanted.expert].hosts)
        if (hosts.usable(host))
          usable.push_back(host);
    if (usable.empty()) {
      result.homeless.push_back(wanted);
      continue;
    }
    auto chosen = usable.front();
    if (usable.size() > 1) {
      const auto draw = mixed(mixed(salt) ^ (std::uint64_t{layer} << 32 | wanted.expert));
      const auto first = draw % usable.size();
      const auto second = (first + 1 + (draw >> 32) % (usable.size() - 1)) % usable.size();
      const auto rows = [&](worker_id host) {
        const auto planned = shares.find(host);
        return hosts.ahead(host) + (planned == shares.end() ? 0 : planned->second.planned());
      };
      chosen = rows(usable[second]) < rows(usable[first]) ? usable[second] : usable[first];
    }
    shares[chosen].add(wanted);
  }
  for (auto& [host, share] : shares)
    result.shares.push_back(share.finish(host, num_topk));
  return result;
}

} // namespace troupe
