#include "actors/attention/expert_dispatcher.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/attention_metrics.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

/// Answers of one dispatch that a sound host would not give, before its sequences are given back.
constexpr std::uint32_t max_faults = 3;

/// How often the dispatcher looks for late batches: half of the shortest wait that it has to notice.
constexpr auto tick_interval = defaults::hedge_min / 2;

/// Copies the rows of a share into a buffer of their own; returns the dispatch itself if the share has all
/// rows.
payload gather(const moe_dispatch& dispatch, const host_share& share, std::uint32_t row_bytes) {
  if (share.travelling.size() == dispatch.num_rows)
    return dispatch.activations;
  auto result = payload::allocate(share.travelling.size() * row_bytes);
  auto* to = result.mutable_data();
  for (const auto row : share.travelling) {
    std::memcpy(to, dispatch.activations.data() + std::size_t{row} * row_bytes, row_bytes);
    to += row_bytes;
  }
  return result;
}

void trace_expert_answer(const sent_batch& batch, std::uint64_t num_rows, const layer_flight& present,
                         const expert_result& result, std::uint64_t begin_ns) {
  timeline::event answered{.kind = timeline::event_kind::expert_batch, .begin_ns = batch.sent_ns};
  answered.id = batch.flow;
  answered.duration_ns = begin_ns - batch.sent_ns;
  answered.args = {batch.trace,
                   batch.host.value,
                   result.received_ns,
                   result.answered_ns,
                   result.queue_ns,
                   result.compute_ns,
                   timeline::packed(present.dispatch.layer, static_cast<std::uint32_t>(num_rows)),
                   present.missing == 0 ? 1U : 0U};
  timeline::record(answered);
}

} // namespace

expert_dispatcher::expert_dispatcher(local_attention_worker_actor::pointer self,
                                     const attention_worker_config& config, listener results)
    : self_(self), config_(config), listener_(std::move(results)) {}

host_book::time_point expert_dispatcher::now() const {
  return self_->clock().now();
}

// ---------------------------------------------------------------------------------------------------------------
// Sending

void expert_dispatcher::dispatch(std::uint32_t micro_batch, moe_dispatch wanted, std::uint64_t trace) {
  std::string flaw;
  const auto entries = entries_of(wanted, flaw);
  if (flaw.empty()
      && wanted.activations.size() != std::size_t{wanted.num_rows} * config_.engine->shape().row_bytes)
    flaw = "the engine's activations for layer " + std::to_string(wanted.layer) + " have a wrong size";
  if (!flaw.empty()) {
    listener_.failed(micro_batch, ec::engine_failed, std::move(flaw));
    return;
  }
  auto& present = flights_.begin(micro_batch, std::move(wanted), trace, now());
  arm();
  route(present, entries);
}

/// Sends `entries` to hosts, and parks those that have none.
/// @param hedged  the host of a late batch, whose entries are sent to another host or not at all
/// @returns how many batches were sent
std::uint64_t expert_dispatcher::route(layer_flight& present, const std::vector<expert_entries>& entries,
                                       std::optional<worker_id> hedged) {
  auto plan =
      hosts_.plan(entries, present.dispatch.layer, present.dispatch.num_topk, hedged, present.serial, now());
  if (!hedged)
    std::move(plan.homeless.begin(), plan.homeless.end(), std::back_inserter(present.parked));
  for (auto& share : plan.shares)
    send(present, std::move(share), hedged.has_value());
  return plan.shares.size();
}

void expert_dispatcher::send(const layer_flight& present, host_share share, bool is_hedge) {
  const auto number = flights_.next_number();
  const auto layer = present.dispatch.layer;
  auto& host = hosts_.at(share.host);
  lateness_.sent();
  sent_batch sent;
  sent.trace = present.trace;
  sent.flow = sent.trace == 0 ? 0 : timeline::mixed(sent.trace + number);
  timeline::span sending(timeline::event_kind::send_batch, sent.flow);
  sending.args() = {sent.trace, share.host.value, layer, share.travelling.size()};
  if (sent.trace != 0 && !std::exchange(host.is_named, true))
    timeline::record({.kind = timeline::event_kind::worker_name, .id = share.host.value}, host.address.name);
  auto& message = sent.message;
  message.batch = number;
  message.micro_batch = present.micro_batch;
  message.layer = layer;
  message.layer_version = hosts_.routing().layers.at(layer)->version;
  message.num_rows = static_cast<std::uint32_t>(share.travelling.size());
  message.experts = share.experts;
  message.offsets = share.offsets;
  message.rows = std::move(share.rows);
  message.flow = sent.flow;
  message.activations = gather(present.dispatch, share, config_.engine->shape().row_bytes);
  share.travelling.clear();
  sent.layer_version = message.layer_version;
  sent.host = share.host;
  sent.micro_batch = present.micro_batch;
  sent.serial = present.serial;
  sent.since = now();
  sent.hedged = is_hedge; // no copies of copies: if no host answers, they would fill the queues
  host.outstanding_rows += share.slots.size();
  sent.share = std::move(share);
  flights_.add(number, std::move(sent));
  if (host.handle) {
    deliver(number, host);
  } else {
    host.awaiting_handle.push_back(number);
    resolve(host);
  }
}

void expert_dispatcher::deliver(std::uint64_t number, known_host& host) {
  auto* sent = flights_.batch(number);
  if (sent == nullptr)
    return;
  if (sent->flow != 0)
    sent->sent_ns = timeline::now_ns();
  if (!host.silent_since)
    host.silent_since = now();
  // The tick watches for late answers: CAF would wake the thread of its clock twice for every timeout.
  self_->request(host.handle, caf::infinite, std::exchange(sent->message, {}))
      .then(
          [this, number, id = sent->host](expert_result& result) {
            heard_from(id);
            on_result(number, result);
          },
          [this, number, id = sent->host](const caf::error& error) {
            if (!is_peer_down(error))
              heard_from(id);
            on_error(number, error);
          });
}

// ---------------------------------------------------------------------------------------------------------------
// Answers

/// The host has answered something, possibly an error.
void expert_dispatcher::heard_from(worker_id id) {
  if (auto* host = hosts_.find(id))
    host->silent_since.reset();
}

void expert_dispatcher::on_result(std::uint64_t number, expert_result& result) {
  const auto* sent = flights_.batch(number);
  if (sent == nullptr)
    return; // its host was declared down or the batch given up, and the rows went elsewhere
  const auto begin_ns = sent->flow == 0 ? 0 : timeline::now_ns();
  timeline::span taking(timeline::event_kind::take_answer, sent->flow);
  taking.args() = {sent->trace};
  const auto num_rows = sent->num_rows();
  auto& host = hosts_.at(sent->host);
  if (result.outputs.size() != num_rows * config_.engine->shape().row_bytes) {
    on_error(number, make_error(ec::incompatible, host.address.name + " answered "
                                                      + std::to_string(result.outputs.size()) + " bytes for "
                                                      + std::to_string(num_rows) + " rows"));
    return;
  }
  auto batch = *flights_.take(number);
  host.answered(batch.repeated ? 0 : num_rows, result.queued_rows, now());
  const auto elapsed = now() - batch.since;
  lateness_.answered(num_rows, elapsed);
  auto* present = flights_.flight_of(batch);
  if (present == nullptr)
    return;
  if (config_.metrics)
    config_.metrics->on_expert_batch(present->dispatch.layer, static_cast<std::uint32_t>(num_rows),
                                     static_cast<std::uint64_t>(elapsed.count()));
  if (!present->answer(std::move(batch.share.slots), std::move(result.outputs), result.compute_ns, now()))
    return;
  if (batch.flow != 0)
    trace_expert_answer(batch, num_rows, *present, result, begin_ns);
  if (present->missing > 0)
    return;
  auto outputs = std::move(present->outputs);
  const auto expert_ns = present->expert_ns;
  flights_.end(batch.micro_batch);
  listener_.complete(batch.micro_batch, std::move(outputs), expert_ns);
}

void expert_dispatcher::on_error(std::uint64_t number, const caf::error& error) {
  const auto taken = flights_.take(number);
  if (!taken)
    return;
  const auto& batch = *taken;
  if (batch.repeated)
    return; // the rows are on their way elsewhere
  auto& host = hosts_.at(batch.host);
  host.outstanding_rows -= batch.num_rows();
  const auto code = code_of(error);
  auto* present = flights_.flight_of(batch);
  if (code != ec::not_hosted)
    host.avoid(now());
  else if (present != nullptr)
    host.contradict(present->dispatch.layer, batch.layer_version, now());
  if (present == nullptr)
    return;
  const auto entries = present->unanswered(batch.share);
  if (entries.empty())
    return;
  const auto fault = code == ec::bad_request || code == ec::engine_failed || code == ec::incompatible;
  if (fault && ++present->faults >= max_faults)
    fail(*present, ec::engine_failed, text_of(error));
  else
    retry(*present, entries, code);
}

void expert_dispatcher::retry(layer_flight& present, const std::vector<expert_entries>& entries, ec code) {
  ++retries_;
  if (config_.metrics)
    config_.metrics->on_expert_retry(code);
  route(present, entries);
}

void expert_dispatcher::fail(const layer_flight& present, ec code, std::string text) {
  const auto micro_batch = present.micro_batch;
  flights_.end(micro_batch);
  listener_.failed(micro_batch, code, std::move(text));
}

// ---------------------------------------------------------------------------------------------------------------
// Waiting

void expert_dispatcher::tick() {
  armed_ = false;
  look_around();
}

void expert_dispatcher::look_around() {
  // The failure of a flight calls the worker, which may start others: look each one up again.
  for (const auto micro_batch : flights_.parked())
    if (auto* present = flights_.find(micro_batch))
      retry_parked(*present);
  const auto [overdue, late] = flights_.find_late(lateness_, now());
  for (const auto number : overdue)
    repeat(number);
  for (const auto number : late)
    if (auto* batch = flights_.batch(number))
      hedge(*batch);
  arm();
}

void expert_dispatcher::retry_parked(layer_flight& present) {
  route(present, present.take_parked());
  if (present.parked.empty() || now() - present.progress < defaults::unhosted_wait)
    return;
  fail(present, ec::not_ready,
       "no host has answered for expert " + std::to_string(present.parked.front().expert) + " of layer "
           + std::to_string(present.dispatch.layer) + " for "
           + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(defaults::unhosted_wait).count())
           + " s");
}

/// The host may have lost the batch. If it is only slow, it computes the copy after the original, whose
/// answer still counts.
void expert_dispatcher::repeat(std::uint64_t number) {
  auto* batch = flights_.batch(number);
  if (batch == nullptr)
    return;
  auto& host = hosts_.at(batch->host);
  host.avoid(now());
  host.outstanding_rows -= batch->num_rows();
  auto* present = flights_.flight_of(*batch);
  const auto entries = present == nullptr ? std::vector<expert_entries>{} : present->unanswered(batch->share);
  if (entries.empty()) {
    flights_.take(number);
    return;
  }
  batch->repeated = true;
  ++present->repeats;
  retry(*present, entries, ec::none);
}

void expert_dispatcher::hedge(sent_batch& late) {
  auto* present = flights_.flight_of(late);
  if (present == nullptr)
    return;
  if (!lateness_.may_hedge()) {
    if (!std::exchange(late.hedge_refused, true) && config_.metrics)
      config_.metrics->on_hedge_refused();
    return;
  }
  const auto copies = route(*present, present->unanswered(late.share), late.host);
  lateness_.hedged(copies);
  late.hedged = copies > 0;
  if (late.hedged && config_.metrics)
    config_.metrics->on_hedge();
}

void expert_dispatcher::arm() {
  if (armed_ || flights_.is_empty())
    return;
  armed_ = true;
  self_->delayed_send(self_, tick_interval, caf::tick_atom_v);
}

// ---------------------------------------------------------------------------------------------------------------
// Hosts

void expert_dispatcher::update(const cluster_view& view) {
  if (!hosts_.update(view))
    return;
  for (const auto id : hosts_.gone())
    disconnect(id, make_error(ec::peer_down, hosts_.at(id).address.name + " has left the cluster"));
  hosts_.forget_gone();
  look_around();
}

bool expert_dispatcher::down(const caf::actor_addr& address) {
  const auto id = hosts_.host_with(address);
  if (id)
    disconnect(*id, make_error(ec::peer_down, hosts_.at(*id).address.name + " is down"));
  return id.has_value();
}

void expert_dispatcher::resolve(known_host& host) {
  if (std::exchange(host.resolving, true))
    return;
  const auto id = host.address.id;
  const auto failed = [this, id](const caf::error& error) {
    hosts_.at(id).resolving = false;
    disconnect(id, error);
  };
  self_
      ->request(config_.directory, defaults::connect_timeout, caf::resolve_atom_v, host.address.endpoint,
                host.address.name)
      .then(
          [this, id, failed](const caf::strong_actor_ptr& found) {
            auto& resolved = hosts_.at(id);
            if (!found || !resolved.in_view) {
              failed(
                  make_error(ec::peer_down, resolved.address.name
                                                + (found ? " has left the cluster" : " is not published")));
              return;
            }
            resolved.resolving = false;
            resolved.handle = caf::actor_cast<expert_host_actor>(found);
            self_->monitor(resolved.handle);
            for (const auto number : std::exchange(resolved.awaiting_handle, {}))
              deliver(number, resolved);
          },
          failed);
}

void expert_dispatcher::disconnect(worker_id id, const caf::error& reason) {
  auto& host = hosts_.at(id);
  if (host.handle)
    self_->demonitor(host.handle.address());
  host.disconnect(now());
  // CAF never answers a batch that a dead actor had accepted: its error is made here.
  for (const auto number : flights_.sent_to(id))
    on_error(number, reason);
}

} // namespace troupe
