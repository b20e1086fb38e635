#include "actors/attention/expert_dispatcher.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/attention_metrics.hpp"
#include "actors/defaults.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

/// Answers of one dispatch that a sound host would not give, before its sequences are given back.
constexpr uint32_t max_faults = 3;

/// How often the dispatcher looks at what waits: half of the shortest wait that it has to notice.
constexpr auto tick_interval = defaults::hedge_min / 2;

/// The rows of a share in a buffer of their own, or the whole dispatch without a copy.
payload gather(const moe_dispatch& dispatch, const host_share& share, uint32_t row_bytes) {
  if (share.travelling.size() == dispatch.num_rows)
    return dispatch.activations;
  auto result = payload::allocate(share.travelling.size() * row_bytes);
  auto* to = result.mutable_data();
  for (const auto row : share.travelling) {
    std::memcpy(to, dispatch.activations.data() + size_t{row} * row_bytes, row_bytes);
    to += row_bytes;
  }
  return result;
}

/// What batches that failed one by one have left, as one dispatch has it: experts ascending, each once, and
/// each slot once, though a batch and its hedge may both have failed.
std::vector<expert_entries> merged(const std::vector<expert_entries>& parked) {
  std::map<uint32_t, std::vector<uint32_t>> by_expert;
  for (const auto& [expert, slots] : parked)
    by_expert[expert].insert(by_expert[expert].end(), slots.begin(), slots.end());
  std::vector<expert_entries> result;
  for (auto& [expert, slots] : by_expert) {
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    result.push_back({expert, std::move(slots)});
  }
  return result;
}

} // namespace

expert_dispatcher::expert_dispatcher(attention_worker_actor::pointer self,
                                     const attention_worker_config& config, listener results)
    : self_(self), config_(config), listener_(std::move(results)) {}

void expert_dispatcher::dispatch(uint32_t micro_batch, moe_dispatch wanted, uint64_t trace) {
  std::string flaw;
  auto entries = entries_of(wanted, flaw);
  if (flaw.empty()
      && wanted.activations.size() != size_t{wanted.num_rows} * config_.engine->shape().row_bytes)
    flaw = "the engine's activations for layer " + std::to_string(wanted.layer) + " have a wrong size";
  if (!flaw.empty()) {
    listener_.failed(micro_batch, ec::engine_failed, std::move(flaw));
    return;
  }
  auto& present = flights_[micro_batch];
  present = flight{};
  present.serial = ++last_serial_;
  present.trace = trace;
  present.progress = self_->clock().now();
  present.missing = wanted.slots.size();
  present.answered.assign(wanted.slots.size(), false);
  present.dispatch = std::move(wanted);
  arm();
  route(micro_batch, present, std::move(entries), {}, true);
}

void expert_dispatcher::drop(uint32_t micro_batch) {
  flights_.erase(micro_batch);
}

void expert_dispatcher::tick() {
  armed_ = false;
  look_around();
}

void expert_dispatcher::look_around() {
  // Failing one flight calls back into the worker, which may start others: go by number.
  std::vector<uint32_t> waiting;
  for (const auto& [micro_batch, present] : flights_)
    if (!present.parked.empty())
      waiting.push_back(micro_batch);
  for (const auto micro_batch : waiting)
    if (const auto found = flights_.find(micro_batch); found != flights_.end())
      retry_parked(micro_batch, found->second);
  std::vector<uint64_t> overdue;
  std::vector<uint64_t> late;
  const auto now = self_->clock().now();
  std::erase_if(sent_, [this](const auto& entry) { // nobody waits for its answer any more
    return entry.second.repeated && flight_of(entry.second) == nullptr;
  });
  for (const auto& [number, batch] : sent_)
    if (batch.repeated)
      continue;
    else if (now - batch.since >= patience(batch))
      overdue.push_back(number);
    else if (!batch.hedged
             && now - batch.since >= std::max<std::chrono::nanoseconds>(
                    defaults::hedge_min, 5 * expected(batch.share.slots.size())))
      late.push_back(number);
  for (const auto number : overdue)
    repeat(number);
  for (const auto number : late)
    if (const auto found = sent_.find(number); found != sent_.end())
      hedge(found->second);
  arm();
}

void expert_dispatcher::route(uint32_t micro_batch, flight& present, std::vector<expert_entries> entries,
                              worker_id except, bool park) {
  const auto layer = present.dispatch.layer;
  static const layer_placement nowhere;
  const auto& where = layer < placement_.layers.size() ? *placement_.layers[layer] : nowhere;
  host_knowledge hosts;
  hosts.usable = [&](worker_id host) { return host != except && usable(host, layer); };
  hosts.ahead = [&, now = self_->clock().now()](worker_id host) {
    const auto& entry = hosts_.at(host);
    return entry.outstanding_rows + entry.others.rows(now);
  };
  auto plan = plan_dispatch(entries, layer, present.dispatch.num_topk, where, hosts, present.serial);
  if (park)
    std::move(plan.homeless.begin(), plan.homeless.end(), std::back_inserter(present.parked));
  for (auto& share : plan.shares)
    send(micro_batch, present, std::move(share));
}

void expert_dispatcher::send(uint32_t micro_batch, const flight& present, host_share share) {
  const auto number = ++last_batch_;
  const auto host = share.host;
  auto& entry = hosts_.at(host);
  hedges_.earn();
  sent_batch sent;
  sent.trace = present.trace;
  sent.flow = sent.trace == 0 ? 0 : timeline::mixed(sent.trace + number);
  timeline::span sending(timeline::event_kind::send_batch, sent.flow);
  sending.args() = {sent.trace, host.value, present.dispatch.layer, share.travelling.size()};
  if (sent.trace != 0 && !std::exchange(entry.is_named, true))
    timeline::record({.kind = timeline::event_kind::worker_name, .id = host.value}, entry.address.name);
  auto& message = sent.message;
  message.batch = number;
  message.micro_batch = micro_batch;
  message.layer = present.dispatch.layer;
  message.layer_version = placement_.layers.at(present.dispatch.layer)->version;
  message.num_rows = static_cast<uint32_t>(share.travelling.size());
  message.experts = share.experts;
  message.offsets = share.offsets;
  message.rows = std::move(share.rows);
  message.flow = sent.flow;
  message.activations = gather(present.dispatch, share, config_.engine->shape().row_bytes);
  share.travelling.clear();
  sent.layer_version = message.layer_version;
  sent.host = host;
  sent.micro_batch = micro_batch;
  sent.serial = present.serial;
  sent.since = self_->clock().now();
  entry.outstanding_rows += share.slots.size();
  sent.share = std::move(share);
  sent_.emplace(number, std::move(sent));
  if (entry.handle) {
    deliver(number, entry);
  } else {
    entry.awaiting_handle.push_back(number);
    resolve(entry);
  }
}

void expert_dispatcher::deliver(uint64_t number, known_host& entry) {
  auto& sent = sent_.at(number);
  const auto host = sent.host;
  if (sent.flow != 0)
    sent.sent_ns = timeline::now_ns();
  if (!entry.silent_since)
    entry.silent_since = self_->clock().now();
  // The tick watches for `expert_batch_timeout`: a timeout of CAF's is set and taken back by waking its
  // clock's thread, twice for every batch.
  self_->request(entry.handle, caf::infinite, std::exchange(sent.message, {}))
      .then(
          [this, number, host](expert_result& result) {
            heard_from(host);
            on_result(number, result);
          },
          [this, number, host](const caf::error& error) {
            if (!is_peer_down(error))
              heard_from(host);
            on_error(number, error);
          });
}

void expert_dispatcher::trace_answer(const sent_batch& batch, uint32_t layer, const expert_result& result,
                                     uint64_t begin_ns, bool is_last) const {
  timeline::event answered{.kind = timeline::event_kind::expert_batch, .begin_ns = batch.sent_ns};
  answered.id = batch.flow;
  answered.duration_ns = begin_ns - batch.sent_ns;
  const auto rows = static_cast<uint32_t>(batch.share.slots.size());
  answered.args = {batch.trace,
                   batch.host.value,
                   result.received_ns,
                   result.answered_ns,
                   result.queue_ns,
                   result.compute_ns,
                   timeline::packed(layer, rows),
                   is_last ? 1U : 0U};
  timeline::record(answered);
}

/// It has answered something, be it with an error.
void expert_dispatcher::heard_from(worker_id host) {
  if (const auto found = hosts_.find(host); found != hosts_.end())
    found->second.silent_since.reset();
}

std::vector<complaint> expert_dispatcher::complaints() const {
  std::vector<complaint> result;
  const auto now = self_->clock().now();
  for (const auto& [id, entry] : hosts_)
    if (entry.known && entry.silent_since && now - *entry.silent_since > defaults::engine_stall)
      result.push_back(
          {id,
           static_cast<uint64_t>(
               std::chrono::duration_cast<std::chrono::milliseconds>(now - *entry.silent_since).count())});
  return result;
}

void expert_dispatcher::on_result(uint64_t number, expert_result& result) {
  const auto found = sent_.find(number);
  if (found == sent_.end())
    return; // its host was declared down or the batch given up in the meantime, and the rows went elsewhere
  const auto begin_ns = found->second.flow == 0 ? 0 : timeline::now_ns();
  timeline::span taking(timeline::event_kind::take_answer, found->second.flow);
  taking.args() = {found->second.trace};
  const auto& slots = found->second.share.slots;
  if (result.outputs.size() != slots.size() * config_.engine->shape().row_bytes) {
    on_error(number, make_error(ec::incompatible, hosts_.at(found->second.host).address.name + " answered "
                                                      + std::to_string(result.outputs.size()) + " bytes for "
                                                      + std::to_string(slots.size()) + " rows"));
    return;
  }
  auto batch = std::move(found->second);
  sent_.erase(found);
  auto& entry = hosts_.at(batch.host);
  if (!batch.repeated)
    entry.outstanding_rows -= batch.share.slots.size();
  entry.pause = {};
  const auto now = self_->clock().now();
  entry.others.heard(result.queued_rows, entry.outstanding_rows, now);
  const auto elapsed = static_cast<double>((now - batch.since).count());
  const auto per_row = elapsed / static_cast<double>(batch.share.slots.size());
  row_ns_ = row_ns_ > 0 ? row_ns_ + (per_row - row_ns_) / 8 : per_row;
  batch_ns_ = batch_ns_ > 0 ? batch_ns_ + (elapsed - batch_ns_) / 8 : elapsed;
  auto* present = flight_of(batch);
  if (present == nullptr)
    return;
  if (config_.metrics)
    config_.metrics->on_expert_batch(present->dispatch.layer, static_cast<uint32_t>(batch.share.slots.size()),
                                     static_cast<uint64_t>(elapsed));
  auto news = size_t{0};
  for (auto& slot : batch.share.slots) {
    if (present->answered[slot]) {
      slot = expert_outputs::unused;
    } else {
      present->answered[slot] = true;
      ++news;
    }
  }
  if (news == 0)
    return;
  present->missing -= news;
  present->progress = self_->clock().now();
  present->expert_ns = std::max(present->expert_ns, result.compute_ns);
  if (batch.flow != 0)
    trace_answer(batch, present->dispatch.layer, result, begin_ns, present->missing == 0);
  present->outputs.push_back({std::move(result.outputs), std::move(batch.share.slots)});
  if (present->missing > 0)
    return;
  auto outputs = std::move(present->outputs);
  const auto expert_ns = present->expert_ns;
  flights_.erase(batch.micro_batch);
  listener_.complete(batch.micro_batch, std::move(outputs), expert_ns);
}

void expert_dispatcher::on_error(uint64_t number, const caf::error& error) {
  const auto found = sent_.find(number);
  if (found == sent_.end())
    return;
  const auto batch = std::move(found->second);
  sent_.erase(found);
  if (batch.repeated)
    return; // the rows are on their way elsewhere
  auto& entry = hosts_.at(batch.host);
  entry.outstanding_rows -= batch.share.slots.size();
  const auto code = code_of(error);
  auto* present = flight_of(batch);
  const auto fault = code == ec::bad_request || code == ec::engine_failed || code == ec::incompatible;
  if (code == ec::not_hosted && present != nullptr) {
    entry.moved[present->dispatch.layer] = {batch.layer_version,
                                            self_->clock().now() + defaults::reconnect_max};
  } else if (code != ec::not_hosted) {
    avoid(entry);
  }
  if (present == nullptr)
    return;
  auto entries = unanswered(batch, *present);
  if (entries.empty())
    return;
  if (fault && ++present->faults >= max_faults) {
    fail(batch.micro_batch, ec::engine_failed, text_of(error));
    return;
  }
  ++retries_;
  if (config_.metrics)
    config_.metrics->on_expert_retry(code);
  route(batch.micro_batch, *present, std::move(entries), {}, true);
}

/// Measured batches are waited for in proportion, up to `unhosted_wait`; every copy doubles it.
std::chrono::nanoseconds expert_dispatcher::patience(const sent_batch& batch) {
  constexpr uint32_t most_doublings = 4;
  const auto measured = std::clamp<std::chrono::nanoseconds>(
      5 * expected(batch.share.slots.size()), defaults::expert_batch_timeout, defaults::unhosted_wait);
  const auto* present = flight_of(batch);
  return measured * (1U << std::min(present == nullptr ? 0 : present->repeats, most_doublings));
}

/// Its host may have lost it. Or it is slow: then the copy waits behind the original, whose answer still
/// counts.
void expert_dispatcher::repeat(uint64_t number) {
  const auto found = sent_.find(number);
  if (found == sent_.end())
    return;
  auto& batch = found->second;
  auto& entry = hosts_.at(batch.host);
  avoid(entry);
  entry.outstanding_rows -= batch.share.slots.size();
  auto* present = flight_of(batch);
  if (present == nullptr) {
    sent_.erase(found);
    return;
  }
  auto entries = unanswered(batch, *present);
  if (entries.empty()) {
    sent_.erase(found);
    return;
  }
  batch.repeated = true;
  ++present->repeats;
  ++retries_;
  if (config_.metrics)
    config_.metrics->on_expert_retry(ec::none);
  route(batch.micro_batch, *present, std::move(entries), {}, true);
}

void expert_dispatcher::retry_parked(uint32_t micro_batch, flight& present) {
  auto parked = std::exchange(present.parked, {});
  for (auto& entries : parked) // a late answer may have come
    std::erase_if(entries.slots, [&](uint32_t slot) { return present.answered[slot]; });
  std::erase_if(parked, [](const auto& entries) { return entries.slots.empty(); });
  route(micro_batch, present, merged(parked), {}, true);
  if (present.parked.empty() || self_->clock().now() - present.progress < defaults::unhosted_wait)
    return;
  fail(micro_batch, ec::not_ready,
       "no host has answered for expert " + std::to_string(present.parked.front().expert) + " of layer "
           + std::to_string(present.dispatch.layer) + " for "
           + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(defaults::unhosted_wait).count())
           + " s");
}

void expert_dispatcher::hedge(sent_batch& late) {
  auto* present = flight_of(late);
  if (present == nullptr)
    return;
  if (!hedges_.is_left()) {
    if (!std::exchange(late.hedge_refused, true) && config_.metrics)
      config_.metrics->on_hedge_refused();
    return;
  }
  const auto before = last_batch_;
  const auto micro_batch = late.micro_batch;
  const auto host = late.host;
  auto entries = unanswered(late, *present);
  route(micro_batch, *present, std::move(entries), host, false);
  late.hedged = last_batch_ > before;
  hedges_.spend(last_batch_ - before);
  // A copy is not hedged in its turn: while no host answers, copies of copies would fill their queues.
  for (auto copy = before + 1; copy <= last_batch_; ++copy)
    if (const auto found = sent_.find(copy); found != sent_.end())
      found->second.hedged = true;
  if (late.hedged && config_.metrics)
    config_.metrics->on_hedge();
}

std::chrono::nanoseconds expert_dispatcher::expected(size_t num_rows) const {
  if (batch_ns_ == 0)
    return defaults::unmeasured_expert_batch;
  return std::chrono::nanoseconds{
      static_cast<int64_t>(std::max(batch_ns_, row_ns_ * static_cast<double>(num_rows)))};
}

std::vector<expert_entries> expert_dispatcher::unanswered(const sent_batch& batch,
                                                          const flight& present) const {
  std::vector<expert_entries> result;
  const auto& share = batch.share;
  for (size_t i = 0; i < share.experts.size(); ++i) {
    expert_entries entries;
    entries.expert = share.experts[i];
    for (auto slot = share.offsets[i]; slot < share.offsets[i + 1]; ++slot)
      if (!present.answered[share.slots[slot]])
        entries.slots.push_back(share.slots[slot]);
    if (!entries.slots.empty())
      result.push_back(std::move(entries));
  }
  return result;
}

expert_dispatcher::flight* expert_dispatcher::flight_of(const sent_batch& batch) {
  const auto found = flights_.find(batch.micro_batch);
  return found != flights_.end() && found->second.serial == batch.serial ? &found->second : nullptr;
}

void expert_dispatcher::fail(uint32_t micro_batch, ec code, std::string text) {
  flights_.erase(micro_batch);
  listener_.failed(micro_batch, code, std::move(text));
}

void expert_dispatcher::arm() {
  if (armed_ || (flights_.empty() && sent_.empty()))
    return;
  armed_ = true;
  self_->delayed_send(self_, tick_interval, caf::tick_atom_v);
}

} // namespace troupe
