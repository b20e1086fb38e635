#include "actors/scheduler/prefix_index.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe {

template <class Change>
void prefix_index::change(std::uint64_t hash, worker_id worker, Change apply) {
  auto& workers = workers_[hash];
  auto& entry = workers[worker];
  apply(entry);
  if (entry.is_reported || entry.holders > 0)
    return;
  workers.erase(worker);
  if (workers.empty())
    workers_.erase(hash);
}

void prefix_index::report(worker_id worker, std::vector<std::uint64_t> hashes) {
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  auto& known = reported_[worker];
  std::vector<std::uint64_t> changed; // most of a report is as in the one before
  std::set_difference(known.begin(), known.end(), hashes.begin(), hashes.end(), std::back_inserter(changed));
  for (const auto hash : changed)
    change(hash, worker, [](presence& entry) { entry.is_reported = false; });
  changed.clear();
  std::set_difference(hashes.begin(), hashes.end(), known.begin(), known.end(), std::back_inserter(changed));
  for (const auto hash : changed)
    change(hash, worker, [](presence& entry) { entry.is_reported = true; });
  known = std::move(hashes);
}

void prefix_index::hold(request_id request, worker_id worker, const std::vector<prefix_landmark>& landmarks) {
  if (landmarks.empty())
    return;
  release(request);
  auto& entry = held_[request];
  entry.worker = worker;
  for (const auto& landmark : landmarks) {
    entry.hashes.push_back(landmark.hash);
    change(landmark.hash, worker, [](presence& at) { ++at.holders; });
  }
}

void prefix_index::release(request_id request) {
  const auto found = held_.find(request);
  if (found == held_.end())
    return;
  auto [worker, hashes] = std::move(found->second);
  held_.erase(found);
  auto& known = reported_[worker];
  for (const auto hash : hashes)
    change(hash, worker, [](presence& at) {
      --at.holders;
      at.is_reported = true;
    });
  known.insert(known.end(), hashes.begin(), hashes.end());
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
}

void prefix_index::remove(worker_id worker) {
  for (auto i = held_.begin(); i != held_.end();) {
    const auto at = i++;
    if (at->second.worker == worker)
      release(at->first);
  }
  report(worker, {});
  reported_.erase(worker);
}

std::map<worker_id, prefix_index::match>
prefix_index::find(const std::vector<prefix_landmark>& landmarks) const {
  std::map<worker_id, match> result;
  for (const auto& [hash, num_tokens] : landmarks) // the shortest first: the longest one remains
    if (const auto found = workers_.find(hash); found != workers_.end())
      for (const auto& [worker, entry] : found->second) {
        auto& of_worker = result[worker];
        of_worker.known = num_tokens;
        if (entry.holders > 0)
          of_worker.shared = num_tokens;
      }
  return result;
}

} // namespace troupe
