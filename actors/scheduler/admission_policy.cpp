#include "actors/scheduler/admission_policy.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

const char* flag_of(fair_queue::measure by) {
  switch (by) {
  case fair_queue::measure::requests:
    return "--max-num-queued-reqs";
  case fair_queue::measure::bytes:
    return "--max-queued-bytes";
  case fair_queue::measure::tokens:
    break;
  }
  return "--max-queue-wait";
}

/// Bound on the requests that end, or are named by their gateway, while a restarted scheduler still waits for
/// their worker: as many as can have a place in a large cluster.
constexpr std::size_t max_released_early = 4096;
constexpr std::size_t max_adopted_early =
    4096; // beyond it, a sequence that runs is taken to hold an even share

} // namespace

admission_policy::admission_policy(bounds most, answer_lengths::settings learning)
    : most_(most), rate_(most.wait), lengths_(learning) {}

bool admission_policy::has_workers() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& entry) { return !entry.second.retired; });
}

/// Does any worker have room for even the smallest sequence now?
bool admission_policy::has_room() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) {
    const auto& [budget, retired] = entry.second;
    return !retired && budget.num_seqs < budget.max_num_seqs
           && budget.kv_tokens_taken() < budget.kv_capacity_tokens;
  });
}

std::uint64_t admission_policy::longest_context() const {
  std::uint64_t longest = 0;
  for (const auto& [id, worker] : workers_)
    if (!worker.retired)
      longest = std::max(
          longest, std::min<std::uint64_t>(worker.budget.max_model_len, worker.budget.kv_capacity_tokens));
  return longest;
}

attention_need admission_policy::need_of(const admission_request& request) const {
  const auto prompt = std::uint64_t{request.prompt_tokens};
  attention_need need{.num_seqs = request.num_choices, .seq_tokens = prompt + request.max_new_tokens};
  const auto least = prompt + std::clamp(request.min_new_tokens, std::uint32_t{1}, request.max_new_tokens);
  if (request.min_new_tokens > 0)
    need.seq_tokens = std::clamp(longest_context(), least, need.seq_tokens);
  const auto likely = prompt + lengths_.likely(request.tenant, request.max_new_tokens);
  need.expected_tokens = std::clamp(likely, least, need.seq_tokens);
  std::uint64_t widest = 0;
  for (const auto& [id, worker] : workers_)
    if (!worker.retired)
      widest = std::max(widest, most_side_by_side(worker.budget, need));
  if (widest > 0)
    need.num_seqs = static_cast<std::uint32_t>(std::min<std::uint64_t>(need.num_seqs, widest));
  return need;
}

bool admission_policy::can_ever_place(const attention_need& need) const {
  return std::any_of(workers_.begin(), workers_.end(), [&need](const auto& entry) {
    return !entry.second.retired && can_ever_fit(entry.second.budget, need);
  });
}

caf::error admission_policy::too_long(const attention_need& need) const {
  return make_error(ec::context_exceeded, "prompt and new tokens need " + std::to_string(need.seq_tokens)
                                              + " positions, the longest context here has "
                                              + std::to_string(longest_context()));
}

/// The first measure by which this is more than may wait. One request alone never exceeds any.
std::optional<fair_queue::measure> admission_policy::excess(const fair_queue::amount& waiting) const {
  if (most_.requests > 0 && waiting.requests > most_.requests)
    return fair_queue::measure::requests;
  if (waiting.requests > 1 && waiting.bytes > most_.bytes)
    return fair_queue::measure::bytes;
  if (const auto most = rate_.most_waiting(kv_tokens().reserved);
      waiting.requests > 1 && most && waiting.tokens > *most)
    return fair_queue::measure::tokens;
  return std::nullopt;
}

/// Makes room in the queue for a new request: requests beyond their tenants' share are displaced.
caf::error admission_policy::make_room(const admission_request& request, std::uint64_t tokens) {
  const auto& waiting = queue_.new_requests();
  const fair_queue::amount own{1, queue_bytes_of(request), tokens};
  const auto short_of = excess(waiting + own);
  if (!short_of)
    return {};
  const auto is_full = [this](const fair_queue::amount& total) { return excess(total).has_value(); };
  if (const auto displaced = queue_.displaced_by(request, own, is_full, *short_of)) {
    for (const auto id : *displaced) {
      queue_.remove(id);
      displaced_.push_back(
          {id, make_error(ec::overloaded, std::string("as much waits for a place as ") + flag_of(*short_of)
                                              + " allows, and this API key has more than its share of it")});
    }
    return {};
  }
  return make_error(ec::overloaded, std::to_string(waiting.requests) + " requests wait for a place already"
                                        + why_too_much(*short_of, waiting, own));
}

/// The end of the error text for a full queue, after the number of waiting requests.
std::string admission_policy::why_too_much(fair_queue::measure by, const fair_queue::amount& waiting,
                                           const fair_queue::amount& own) const {
  const auto allows = std::string(flag_of(by)) + " allows";
  switch (by) {
  case fair_queue::measure::requests:
    return ", as many as " + allows;
  case fair_queue::measure::bytes:
    return " and take " + std::to_string(waiting.bytes) + " of the " + std::to_string(most_.bytes)
           + " bytes that " + allows + "; this one takes " + std::to_string(own.bytes);
  case fair_queue::measure::tokens:
    break;
  }
  return ", and this one would wait longer than the "
         + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(most_.wait).count()) + " s that "
         + allows;
}

void admission_policy::take_place(request_id id, const place_entry& entry) {
  auto& budget = workers_.at(entry.worker).budget;
  budget.num_seqs += entry.num_seqs;
  budget.kv_tokens += entry.kv_tokens;
  places_.emplace(id, entry);
}

void admission_policy::free_place(request_id id) {
  auto found = places_.find(id);
  if (found == places_.end())
    return;
  if (auto worker = workers_.find(found->second.worker); worker != workers_.end()) {
    auto& budget = worker->second.budget;
    budget.num_seqs -= found->second.num_seqs;
    budget.kv_tokens -= found->second.kv_tokens;
    budget.kv_tokens_used -= std::min(budget.kv_tokens_used, found->second.kv_tokens);
  }
  places_.erase(found);
  prefixes_.release(id);
}

void admission_policy::add_worker(const worker_hello& hello) {
  auto id = hello.address.id;
  const auto& terms = std::get<attention_terms>(hello.of_role);
  auto& worker = workers_[id];
  worker.retired = false;
  worker.budget.max_num_seqs = terms.max_num_seqs;
  worker.budget.kv_capacity_tokens = terms.kv_capacity_tokens;
  worker.budget.max_model_len = terms.max_model_len;
  for (auto entry = adopted_early_.begin(); entry != adopted_early_.end();) {
    const auto place = entry->second;
    if (place.worker != id) {
      ++entry;
      continue;
    }
    entry = adopted_early_.erase(entry);
    if (!has_request(place.request))
      take_place(place.request, {.worker = id, .num_seqs = place.num_seqs, .kv_tokens = place.kv_tokens});
  }
  std::map<request_id, std::uint64_t> running;
  for (const auto& sequence : terms.running)
    ++running[sequence.request];
  for (const auto& [request, num_seqs] : running) {
    auto is_over =
        std::find(released_early_.begin(), released_early_.end(), request) != released_early_.end();
    if (is_over || has_request(request))
      continue;
    auto share = terms.kv_capacity_tokens / std::max<std::uint64_t>(terms.max_num_seqs, 1);
    take_place(request,
               {.worker = id, .num_seqs = num_seqs, .kv_tokens = num_seqs * share, .restored = true});
  }
}

void admission_policy::adopt(const held_place& place) {
  withdraw(place.request);
  if (workers_.contains(place.worker))
    take_place(place.request,
               {.worker = place.worker, .num_seqs = place.num_seqs, .kv_tokens = place.kv_tokens});
  else if (adopted_early_.size() < max_adopted_early)
    adopted_early_.emplace(place.request, place);
}

void admission_policy::remove_worker(worker_id id) {
  workers_.erase(id);
  std::erase_if(places_, [id](const auto& entry) { return entry.second.worker == id; });
  prefixes_.remove(id);
}

void admission_policy::retire_worker(worker_id id) {
  if (auto found = workers_.find(id); found != workers_.end())
    found->second.retired = true;
}

void admission_policy::reconcile(const lease_renewal& load) {
  const auto* attention = std::get_if<attention_load>(&load.of_role);
  if (auto found = workers_.find(load.id); found != workers_.end()) {
    found->second.budget.kv_tokens_used = attention == nullptr ? 0 : attention->kv_tokens_used;
    prefixes_.report(load.id, attention == nullptr ? std::vector<std::uint64_t>{} : attention->prefixes);
  }
  // What the worker runs beside the requests that were placed there.
  std::uint64_t reported = load.running + load.waiting;
  for (const auto& [id, entry] : places_)
    if (entry.worker == load.id && !entry.restored)
      reported -= std::min(reported, entry.num_seqs);
  std::uint64_t restored = 0;
  std::vector<request_id> over;
  for (const auto& [id, entry] : places_)
    if (entry.worker == load.id && entry.restored) {
      restored += entry.num_seqs;
      if (restored > reported)
        over.push_back(id);
    }
  for (auto id : over)
    free_place(id);
}

/// KV tokens that the request is likely to add to those in use.
std::uint64_t admission_policy::likely_tokens(const admission_request& request,
                                              const attention_need& need) const {
  std::uint32_t shared = 0;
  for (const auto& [id, prefix] : prefixes_.find(request.landmarks))
    shared = std::max(shared, prefix.shared);
  return need.kv_tokens(shared);
}

caf::error admission_policy::enqueue(const admission_request& request, time_point now) {
  auto is_replay = request.attempt > 0;
  withdraw(request.id); // also when it is refused now: the earlier question no longer waits
  if (request.num_choices == 0 || request.prompt_tokens == 0 || request.max_new_tokens == 0)
    return make_error(ec::bad_request, "a request needs a prompt, a choice and a new token");
  if (request.tenant.size() > max_tenant_bytes)
    return make_error(ec::bad_request,
                      "a tenant's name has more than " + std::to_string(max_tenant_bytes) + " bytes");
  const auto need = need_of(request);
  if (!is_replay && has_workers() && !can_ever_place(need))
    return too_long(need);
  const auto tokens = likely_tokens(request, need);
  if (!is_promised(request))
    if (auto error = make_room(request, tokens))
      return error;
  queue_.add(request, now, tokens, is_promised(request) ? std::chrono::milliseconds{0} : most_.wait);
  return {};
}

std::vector<admission_policy::placed> admission_policy::place(time_point now) {
  std::vector<placed> result;
  std::uint64_t given = 0; // to requests that are not promised a place
  queue_.take_turns(now, [&](const fair_queue::waiting& offered) {
    using verdict = fair_queue::verdict;
    if (!has_room())
      return verdict::full;
    const auto& request = offered.request;
    auto need = need_of(request);
    if (!can_ever_place(need))
      return verdict::skipped;
    auto known = prefixes_.find(request.landmarks);
    std::vector<assignment_candidate> candidates;
    for (const auto& [id, worker] : workers_)
      if (!worker.retired)
        candidates.push_back({.id = id, .budget = worker.budget, .prefix = known[id]});
    auto worker = choose_worker(candidates, need, request.avoid);
    if (!worker) {
      // If only workers that the request avoids have room, they may work again: that is better than a long
      // wait, and no other request waits for them.
      worker = choose_worker(candidates, need, {});
      if (!worker)
        return verdict::no_room;
      if (now - offered.since < defaults::avoid_wait)
        return verdict::skipped;
    }
    const auto kv_tokens = need.kv_tokens(known[*worker].shared);
    take_place(request.id, {.worker = *worker,
                            .num_seqs = need.num_seqs,
                            .kv_tokens = kv_tokens,
                            .most_new = static_cast<std::uint32_t>(need.seq_tokens - request.prompt_tokens),
                            .tenant = request.tenant});
    prefixes_.hold(request.id, *worker, request.landmarks);
    if (!is_promised(request))
      given += offered.tokens;
    result.push_back({request.id, *worker, need.num_seqs, kv_tokens, now - offered.since});
    return verdict::taken;
  });
  rate_.observe(now, given, queue_.new_requests().requests > 0);
  return result;
}

std::vector<admission_policy::refused> admission_policy::expire(time_point now, bool is_ready) {
  std::vector<refused> result;
  for (const auto& expired : queue_.take_expired(now)) {
    const auto& request = expired.request;
    auto waited =
        std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now - expired.since).count());
    if (is_ready && can_ever_place(need_of(request)))
      result.push_back({request.id, make_error(ec::deadline_exceeded, "no place within " + waited + " ms")});
    else
      result.push_back(
          {request.id, make_error(ec::not_ready, "the cluster could not serve within " + waited + " ms")});
  }
  return result;
}

bool admission_policy::withdraw(request_id id) {
  if (adopted_early_.erase(id) > 0)
    return false; // its worker may still report it
  if (queue_.remove(id))
    return true;
  if (!places_.contains(id))
    return false;
  free_place(id);
  return true;
}

void admission_policy::answered(request_id id, std::uint32_t num_tokens) {
  const auto found = places_.find(id);
  if (found == places_.end() || found->second.most_new == 0 || num_tokens == 0)
    return;
  lengths_.observe(found->second.tenant, num_tokens, num_tokens >= found->second.most_new);
}

admission_policy::memory admission_policy::kv_tokens() const {
  memory result;
  for (const auto& [id, worker] : workers_) {
    result.reserved += worker.budget.kv_tokens;
    result.used += worker.budget.kv_tokens_used;
    result.capacity += worker.budget.kv_capacity_tokens;
  }
  return result;
}

void admission_policy::release(request_id id) {
  if (withdraw(id))
    return;
  released_early_.push_back(id);
  if (released_early_.size() > max_released_early)
    released_early_.pop_front();
}

std::size_t admission_policy::num_placed(worker_id id) const {
  return static_cast<std::size_t>(std::count_if(
      places_.begin(), places_.end(), [id](const auto& entry) { return entry.second.worker == id; }));
}

const attention_budget* admission_policy::budget(worker_id id) const {
  auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : &found->second.budget;
}

} // namespace troupe
