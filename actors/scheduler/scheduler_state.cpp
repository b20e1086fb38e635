#include "actors/scheduler/scheduler_state.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

/// Incarnations of workers that one scheduler remembers; forgetting costs a needless new term.
constexpr size_t max_welcomed = 4096;

constexpr auto unlimited_experts = std::numeric_limits<uint64_t>::max();

} // namespace

uint64_t max_experts_of(const worker_hello& hello) {
  if (hello.expert_memory_bytes == 0 || hello.expert_bytes == 0)
    return unlimited_experts;
  return hello.expert_memory_bytes / hello.expert_bytes;
}

std::string described(const worker_address& address) {
  return address.name + (address.endpoint.empty() ? "" : " at " + address.endpoint);
}

void scheduler_state::start(pointer actor, scheduler_config settings, scheduler_storage storage) {
  self_ = actor;
  config_ = std::move(settings);
  term_ = config_.term;
  writer_ = std::move(storage.writer);
  keeper_ = std::move(storage.keeper);
  next_tick_ = now() + defaults::scheduler_tick;
  members_ = member_table{config_.allow_inexact};
  admission_ =
      admission_policy{{config_.max_queued_bytes, config_.max_num_queued_reqs, config_.max_queue_wait},
                       {.quantile = config_.admission_quantile}};
  if (config_.metrics)
    config_.metrics->on_bounds(config_.max_queued_bytes, config_.max_num_queued_reqs);
  target_ = placement_target{{config_.num_replicas, {}}};
  if (!storage.stored)
    return;
  members_.restore(storage.stored->identity);
  adopt_model();
  if (storage.stored->traced_ppm)
    told_before_ = trace_command{*storage.stored->traced_ppm};
  expected_ = std::move(storage.stored->workers);
  knows_workers_ = !expected_.empty();
  if (knows_workers_)
    begin_recovery();
}

void scheduler_state::event(const char* what, const std::string& text) const {
  timeline::note(what, text);
  if (config_.metrics)
    config_.metrics->on_event(what, text);
}

void scheduler_state::count_workers() const {
  if (config_.metrics)
    config_.metrics->on_workers({members_.count(worker_role::gateway), members_.count(worker_role::attention),
                                 members_.count(worker_role::expert)});
}

/// For logs: nothing where nobody has said what the request is called.
void scheduler_state::request_event_of(request_id id, const char* what, const std::string& text) const {
  const auto found = owners_.find(id);
  if (config_.metrics && found != owners_.end() && !found->second.context.id.empty())
    config_.metrics->on_request({what, found->second.context, text});
}

// ---------------------------------------------------------------------------------------------------------------
// Membership

void scheduler_state::raise_term(uint64_t above, const std::string& who) {
  term_ = above + 1;
  epoch_ = 0;
  welcomed_.clear();
  for (const auto& [id, member] : contacts_)
    welcomed_.insert(id);
  rollout_.restart_epochs();
  view_changed_ = true;
  event("term-raised",
        who + " has seen term " + std::to_string(above) + ", this is now " + std::to_string(term_));
}

void scheduler_state::adopt_model() {
  if (layer_experts_ == members_.identity().layer_experts)
    return;
  layer_experts_ = members_.identity().layer_experts;
  target_.set_layers(layer_experts_);
  rollout_.set_layers(layer_experts_);
  for (const auto& [id, member] : members_.all())
    if (member.hello.address.role == worker_role::expert)
      add_host(member.hello);
}

void scheduler_state::add_host(const worker_hello& hello) {
  rollout_.add_host(hello.address.id, max_experts_of(hello), hello.hosted);
  if (drained_.contains(hello.address.name))
    return;
  target_.add_host(hello.address.id, max_experts_of(hello));
  // One that comes late brings what others were ordered to load meanwhile.
  target_.take_back(hello.address.id, hello.hosted,
                    [this](expert_id expert) { return rollout_.hosts_with(expert); });
}

caf::result<worker_welcome> scheduler_state::join(const worker_hello& hello,
                                                  const caf::strong_actor_ptr& sender) {
  if (!sender)
    return make_error(ec::bad_request, "a worker without a member cannot join");
  auto refusal = members_.check(hello);
  if (refusal) {
    event("worker-refused", text_of(refusal));
    return refusal;
  }
  auto id = hello.address.id;
  if (auto hangs = check_engine(hello))
    return hangs;
  const auto is_ahead = hello.term > term_ || (hello.term == term_ && !welcomed_.contains(id));
  if (is_ahead && keeper_)
    return take_newer_term(hello);
  watch_recovery(hello);
  if (is_ahead)
    raise_term(hello.term, hello.address.name);
  for (const auto& [other, entry] : members_.all())
    if (other != id && entry.hello.address.name == hello.address.name) {
      remove_worker(other, "was started anew");
      break;
    }
  if (welcomed_.size() >= max_welcomed)
    welcomed_.clear();
  welcomed_.insert(id);
  members_.join(hello, now());
  count_workers();
  hangs_.joined(hello, now());
  auto& entry = contacts_[id];
  if (entry.member)
    self_->demonitor(entry.member.address());
  entry = contact{};
  entry.member = caf::actor_cast<member_actor>(sender);
  self_->monitor(entry.member);
  recall_trace(hello);
  trace_as_told(entry.member);
  adopt_model();
  if (hello.address.role == worker_role::attention) {
    admission_.add_worker(hello);
    rollout_.add_router(id);
  } else if (hello.address.role == worker_role::expert && !layer_experts_.empty()) {
    add_host(hello);
  }
  if (hello.address.role == worker_role::gateway)
    adopt_places(hello);
  view_changed_ = true;
  view_publisher_.worker_changed(id);
  event("worker-joined", described(hello.address));
  act_soon();
  step();
  return worker_welcome{term_, members_.identity().fingerprint, whole_view_of(hello.address.role)};
}

void scheduler_state::renew(const lease_renewal& load, const caf::strong_actor_ptr& sender) {
  auto id = load.id;
  if (!members_.renew(load, now())) {
    if (sender)
      self_->send(caf::actor_cast<member_actor>(sender), fence_atom_v);
    return;
  }
  hangs_.renewed(load, now());
  if (load.engine.is_stalled()) {
    fence_hung(id, load.engine);
    act_at_once();
    step();
    return;
  }
  if (members_.find(id)->hello.address.role != worker_role::attention)
    return;
  admission_.reconcile(load);
  if (load.term == term_ && rollout_.confirmed(id, load.epoch))
    act_soon();
  step();
}

caf::result<void> scheduler_state::leave(worker_id id) {
  if (!members_.leave(id))
    return caf::unit;
  count_workers();
  admission_.retire_worker(id);
  target_.remove_host(id); // the rollout keeps what it has until others have it
  view_changed_ = true;
  act_soon();
  if (auto found = departures_.find(id); found != departures_.end())
    found->second.promise.deliver(make_error(ec::cancelled, "asked again"));
  auto promise = self_->make_response_promise<caf::unit_t>();
  departures_[id] = {promise, now() + defaults::drain};
  step();
  return promise;
}

void scheduler_state::remove_worker(worker_id id, const std::string& why) {
  if (const auto* member = members_.find(id))
    event("worker-gone", described(member->hello.address) + " " + why);
  orphan([id](const ownership& whose) { return whose.gateway == id && !whose.kept_until; }, false);
  members_.remove(id);
  count_workers();
  view_publisher_.worker_changed(id);
  hangs_.removed(id);
  admission_.remove_worker(id);
  target_.remove_host(id);
  rollout_.remove_host(id);
  rollout_.remove_router(id);
  if (auto found = contacts_.find(id); found != contacts_.end()) {
    self_->demonitor(found->second.member.address());
    contacts_.erase(found);
  }
  has_settled_ = false;
  if (auto found = departures_.find(id); found != departures_.end()) {
    found->second.promise.deliver(caf::unit);
    departures_.erase(found);
  }
  view_changed_ = true;
}

void scheduler_state::down(const caf::actor_addr& source, const caf::error& reason) {
  // Whoever shuts down has no time to say good-bye when nobody needs it any more; that is no death.
  const auto has_left = reason == caf::exit_reason::user_shutdown;
  // A process that has died looks the same as one to which the way is lost.
  const auto is_cut = reason == caf::exit_reason::remote_link_unreachable;
  for (const auto& [id, entry] : contacts_)
    if (entry.member.address() == source) {
      if (!has_left && was_held_up())
        expect_back(id);
      if (is_cut)
        orphan([gateway = id](const ownership& whose) { return whose.gateway == gateway; }, true);
      remove_worker(id, has_left ? "has left" : "has died");
      act_at_once();
      break;
    }
  if (std::erase(watched_, source) > 0)
    orphan([&source](const ownership& whose) { return whose.actor == source; }, is_cut);
  step();
}

bool scheduler_state::was_held_up() const {
  return now() < held_up_until_ || now() - next_tick_ > defaults::lease_interval;
}

void scheduler_state::expect_back(worker_id id) {
  const auto* member = members_.find(id);
  if (member == nullptr || member->hello.address.role == worker_role::gateway)
    return;
  // Keep the old view: half a view would abandon the others' requests, and load their experts elsewhere.
  expected_.push_back(member->hello.address);
  knows_workers_ = true;
  begin_recovery();
}

void scheduler_state::tick() {
  // A scheduler that was held up itself (starved of processor time, stopped) has renewals in its mailbox that
  // it has not read. That is nobody's death.
  const auto late = now() - next_tick_;
  if (late > defaults::lease_interval) {
    held_up_until_ = now() + defaults::lease;
    members_.extend(late, now());
    hangs_.extend(late, now());
    for (auto& [id, whose] : owners_)
      if (whose.kept_until)
        *whose.kept_until += late;
    if (keeper_ && late > defaults::scheduler_lease)
      doubted_until_ = now() + defaults::reconnect_max;
    event("scheduler-late",
          std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(late).count())
              + " ms late: this process did not get to run, so no worker was declared dead meanwhile, and "
                "deaths of workers are noticed as much later. Give it processor time: a limit that is too "
                "low, a machine that swaps, or one that was suspended");
  }
  next_tick_ = now() + defaults::scheduler_tick;
  renew_lease();
  watch_disk();
  give_up_missed();
  for (auto id : members_.expired(now()))
    fence(id, fence_reason::lease, "has not renewed its lease");
  fence_the_accused();
  orphan([time = now()](const ownership& whose) { return whose.kept_until && *whose.kept_until <= time; },
         false);
  for (auto& [id, error] : admission_.expire(now(), published_.ready))
    refuse(id, error);
  act(); // a pause may have passed, or a recovery ended
  step();
}

void scheduler_state::finish_departures() {
  // When the whole cluster goes, nobody takes the last experts over and nobody needs them.
  auto is_over = admission_.num_placed() == 0 && members_.count(worker_role::expert) == 0;
  std::vector<worker_id> free;
  for (const auto& [id, entry] : departures_) {
    auto is_free = admission_.num_placed(id) == 0 && rollout_.is_free(id) && !contacts_.at(id).in_flight;
    if (is_free || is_over || now() >= entry.deadline)
      free.push_back(id);
  }
  for (auto id : free)
    remove_worker(id, "has left");
  if (free.empty())
    return;
  act_soon();
  step();
}

// ---------------------------------------------------------------------------------------------------------------
// Requests

caf::result<assignment>
scheduler_state::admit(const admission_request& request,
                       // NOLINTNEXTLINE(performance-unnecessary-value-param): see header
                       caf::strong_actor_ptr owner) {
  auto promise = self_->make_response_promise<assignment>();
  const auto trace = timeline::key_if_traced(request.context);
  timeline::span admitting(timeline::event_kind::admit, trace);
  admitting.args() = {request.id.value, request.attempt};
  if (trace != 0)
    timeline::name_request(trace, request.context, request.id.value);
  if (auto found = waiting_.find(request.id); found != waiting_.end())
    refuse(request.id, make_error(ec::cancelled, "the request was made again"));
  auto error = admission_.enqueue(request, now());
  for (auto& [id, reason] : admission_.take_displaced())
    refuse(id, reason);
  if (error) {
    if (config_.metrics)
      config_.metrics->on_refused(code_of(error));
    if (config_.metrics && !request.context.id.empty())
      config_.metrics->on_request({"request-refused", request.context, text_of(error)});
    owners_.erase(request.id); // a replay that is refused has lost its earlier place
    promise.deliver(error);
    return promise;
  }
  waiting_[request.id] = promise;
  if (owner) {
    auto address = caf::actor_cast<caf::actor_addr>(owner);
    if (std::find(watched_.begin(), watched_.end(), address) == watched_.end()) {
      self_->monitor(owner);
      watched_.push_back(address);
    }
    owners_[request.id] = {std::move(address), request.gateway, {}, request.context, request.attempt};
    request_event_of(request.id, "request-queued",
                     std::to_string(request.prompt_tokens) + " prompt tokens, "
                         + std::to_string(request.num_choices) + " choices, attempt "
                         + std::to_string(request.attempt));
  }
  step();
  return promise;
}

void scheduler_state::refuse(request_id id, const caf::error& error) {
  if (config_.metrics)
    config_.metrics->on_refused(code_of(error));
  request_event_of(id, "request-refused", text_of(error));
  owners_.erase(id);
  if (auto found = waiting_.find(id); found != waiting_.end()) {
    found->second.deliver(error);
    waiting_.erase(found);
  }
}

void scheduler_state::adopt_places(const worker_hello& hello) {
  const auto id = hello.address.id;
  orphan([id](const ownership& whose) { return whose.gateway == id; }, false);
  for (const auto& place : hello.places) {
    if (auto found = waiting_.find(place.request); found != waiting_.end()) {
      found->second.deliver(make_error(ec::cancelled, "the request has a place"));
      waiting_.erase(found);
    }
    admission_.adopt(place);
    auto& whose = owners_[place.request];
    whose = {{}, id, {}, std::move(whose.context), whose.attempt};
  }
}

void scheduler_state::orphan(const std::function<bool(const ownership&)>& is_its, bool is_cut) {
  std::vector<request_id> lost;
  for (auto& [id, whose] : owners_) {
    if (!is_its(whose))
      continue;
    if (is_cut && !waiting_.contains(id))
      whose.kept_until = now() + defaults::lease;
    else
      lost.push_back(id);
  }
  // All of them first: a free place is for somebody who still wants it.
  for (auto id : lost)
    forget(id, make_error(ec::peer_down, "the gateway has not renewed its lease, or has joined anew"));
}

void scheduler_state::forget(request_id id, const caf::error& reason) {
  admission_.release(id);
  owners_.erase(id);
  if (auto found = waiting_.find(id); found != waiting_.end()) {
    found->second.deliver(reason);
    waiting_.erase(found);
  }
}

void scheduler_state::done(request_id id, uint32_t num_tokens) {
  admission_.answered(id, num_tokens);
  request_event_of(id, "request-released", "its place is free");
  forget(id, make_error(ec::cancelled, "the request is no longer wanted"));
  step();
}

void scheduler_state::trace_place(request_id id, worker_id worker, std::chrono::nanoseconds waited) const {
  const auto owner = owners_.find(id);
  const auto trace = owner == owners_.end() ? 0 : timeline::key_if_traced(owner->second.context);
  if (trace == 0)
    return;
  timeline::event queued{.kind = timeline::event_kind::queue};
  queued.id = trace;
  queued.duration_ns = static_cast<uint64_t>(waited.count());
  queued.begin_ns = timeline::now_ns() - queued.duration_ns;
  queued.args = {id.value, owner->second.attempt, worker.value};
  timeline::record(queued);
}

void scheduler_state::place_requests() {
  if (!published_.ready)
    return;
  for (const auto& [id, worker, num_choices, kv_tokens, waited] : admission_.place(now())) {
    if (config_.metrics)
      config_.metrics->on_admitted(waited);
    const auto& address = members_.find(worker)->hello.address;
    request_event_of(
        id, "request-placed",
        "on " + address.name + " after "
            + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(waited).count())
            + " ms in the queue");
    if (timeline::is_on())
      trace_place(id, worker, waited);
    auto found = waiting_.find(id);
    found->second.deliver(assignment{id, address, num_choices, kv_tokens, members_.numerics()});
    waiting_.erase(found);
  }
}

void scheduler_state::shut_down() {
  for (auto& [id, promise] : waiting_)
    promise.deliver(make_error(ec::shutting_down, "the scheduler is shutting down"));
  for (auto& [id, entry] : departures_)
    entry.promise.deliver(caf::unit);
  for (auto& [expert, move] : moves_)
    move.promise.deliver(make_error(ec::shutting_down, "the scheduler is shutting down"));
  waiting_.clear();
  departures_.clear();
  moves_.clear();
}

// ---------------------------------------------------------------------------------------------------------------
// What others see

scheduler_status scheduler_state::status() const {
  scheduler_status result;
  result.term = term_;
  result.ready = published_.ready;
  result.fingerprint = members_.identity().fingerprint;
  result.experts = published_.experts;
  for (const auto& [id, member] : members_.all()) {
    auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now() - member.renewed);
    result.workers.push_back({member.hello.address, member.load, static_cast<uint64_t>(age.count()),
                              rollout_.hosted(id), member.hello.numerics_class, member.hello.max_num_seqs,
                              member.hello.kv_capacity_tokens, member.hello.max_model_len});
  }
  result.queued = admission_.num_queued();
  result.assigned = admission_.num_placed();
  return result;
}

} // namespace troupe
