#include "actors/scheduler/scheduler_state.hpp"

#include <memory>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>

#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

constexpr double million = 1e6;

request_desk::actor_key key_of(const caf::actor_addr& actor) {
  return {actor.node(), actor.id()};
}

} // namespace

void scheduler_state::start(pointer actor, scheduler_config settings, scheduler_storage storage) {
  self_ = actor;
  config_ = std::move(settings);
  if (!config_.metrics)
    config_.metrics = std::make_shared<scheduler_metrics>();
  links_ = member_links{self_};
  disk_ = {self_,
           storage,
           terms_,
           {.report = [this](const std::optional<operator_event>& event) { report(event); },
            .raise_term =
                [this](std::uint64_t above, const std::string& by) {
                  raise_term(above, by);
                  act_soon();
                },
            .confirmed = [this] { act_soon(); },
            .lost =
                [this](const caf::error& error) {
                  shut_down();
                  self_->quit(error);
                },
            .snapshot = [this] { return snapshot(); }}};
  members_ = member_table{config_.allow_inexact};
  failures_ = failure_detector{now() + defaults::scheduler_tick};
  terms_ = term_ledger{config_.term};
  requests_.emplace(
      admission_policy{{config_.max_queued_bytes, config_.max_num_queued_reqs, config_.max_queue_wait},
                       {.quantile = config_.admission_quantile}},
      config_.metrics);
  experts_ = expert_desk{config_.num_replicas, config_.min_expert_workers};
  config_.metrics->on_bounds(config_.max_queued_bytes, config_.max_num_queued_reqs);
  if (!storage.stored)
    return;
  members_.restore(storage.stored->identity);
  experts_.adopt_model(members_.identity().layer_experts, members_);
  if (storage.stored->traced_ppm)
    traces_.restore(trace_command{*storage.stored->traced_ppm});
  recovery_.restore(std::move(storage.stored->workers), now());
}

void scheduler_state::report(const std::optional<operator_event>& event) const {
  if (!event)
    return;
  timeline::note(event->name, event->text);
  config_.metrics->on_event(event->name, event->text);
}

// ---------------------------------------------------------------------------------------------------------------
// Members

void scheduler_state::count_workers() const {
  const auto count = [this](worker_role role) { return members_.count(role); };
  config_.metrics->on_workers(
      {count(worker_role::gateway), count(worker_role::attention), count(worker_role::expert)});
}

caf::expected<worker_welcome> scheduler_state::join(const worker_hello& hello,
                                                    const caf::strong_actor_ptr& sender) {
  if (!sender)
    return make_error(ec::bad_request, "a worker without a member cannot join");
  const auto id = hello.address.id;
  const auto role = hello.address.role;
  if (auto refusal = members_.check(hello)) {
    report({{"worker-refused", text_of(refusal)}});
    return refusal;
  }
  if (auto hangs = failures_.check_engine(hello)) {
    if (failures_.tell_hung(id)) // it asks every second
      report({{"worker-refused", text_of(hangs)}});
    return hangs;
  }
  const auto is_ahead = terms_.is_ahead(hello);
  if (is_ahead && disk_.has_lease())
    return disk_.take_newer_term(hello);
  for (auto back : recovery_.joined(hello, views_.is_first() && links_.is_empty(), now()))
    views_.worker_changed(back);
  if (is_ahead)
    raise_term(hello.term, hello.address.name);
  if (const auto earlier = members_.earlier_self(hello.address))
    remove_worker(*earlier, "was started anew");
  terms_.welcome(id);
  members_.join(hello, now());
  count_workers();
  failures_.joined(hello, now());
  orders_.joined(id);
  links_.add(id, sender);
  const auto recalled = traces_.joined(hello);
  report(recalled);
  if (recalled)
    timeline::start(traces_.current()->share_ppm / million);
  if (traces_.current())
    for (auto told : recalled ? links_.ids() : std::set{id})
      links_.send_trace(told, *traces_.current());
  experts_.joined(hello, members_.identity().layer_experts, members_);
  for (const auto gateway : members_.foreign_gateways()) { // it hears why when it asks again
    links_.send_fence(gateway);
    remove_worker(gateway, "has the config.json of another model");
  }
  if (role == worker_role::attention)
    requests_->admission().add_worker(hello);
  if (role == worker_role::gateway)
    requests_->adopt(hello);
  views_.worker_changed(id);
  report({{"worker-joined", described(hello.address)}});
  act_soon();
  step();
  return worker_welcome{terms_.term(), members_.identity().fingerprint, views_.whole(role), true};
}

void scheduler_state::renew(const lease_renewal& load, const caf::strong_actor_ptr& sender) {
  const auto id = load.id;
  if (!members_.renew(load, now())) {
    if (sender)
      self_->send(caf::actor_cast<member_actor>(sender), fence_atom_v);
    return;
  }
  failures_.renewed(load, now());
  if (load.engine.is_stalled()) {
    failures_.tell_hung(id);
    fence({id, fence_reason::engine, hang_text(load.engine)});
    act_at_once();
    step();
    return;
  }
  if (members_.find(id)->hello.address.role != worker_role::attention)
    return;
  requests_->admission().reconcile(load);
  if (load.term == terms_.term() && experts_.rollout().confirmed(id, load.epoch))
    act_soon();
  step();
}

void scheduler_state::leave(worker_id id, departure_desk::answer let_go) {
  if (!members_.leave(id))
    return let_go({});
  count_workers();
  requests_->admission().retire_worker(id);
  experts_.retire(id);
  views_.changed();
  act_soon();
  departures_.begin(id, std::move(let_go));
  step();
}

bool scheduler_state::whole_cluster_goes() {
  // Without gateways no requests come. If only the expert workers leave, others will take their place.
  // In a recovery, a gateway or worker that is absent may be about to come back.
  return !is_recovering() && requests_->admission().num_placed() == 0
         && members_.count(worker_role::expert) == 0 && members_.count(worker_role::gateway) == 0;
}

void scheduler_state::finish_departures() {
  // In a recovery nobody knows yet what the others hold.
  if (is_recovering())
    return;
  // When the whole cluster goes, no worker takes over the last experts, and no request needs them.
  const auto is_over = whole_cluster_goes();
  const auto free = departures_.find([&](worker_id id) {
    return is_over
           || (requests_->admission().num_placed(id) == 0 && experts_.rollout().is_free(id)
               && !orders_.is_under_way(id));
  });
  for (auto id : free)
    remove_worker(id, "has left");
  if (free.empty())
    return;
  act_soon();
  step();
}

void scheduler_state::fence(const failure_detector::verdict& dead) {
  const auto& [id, reason, why] = dead;
  links_.send_fence(id);
  config_.metrics->on_fenced(reason);
  if (reason != fence_reason::lease)
    report({{"worker-hung", described(members_.find(id)->hello.address) + " " + why}});
  remove_worker(id, reason == fence_reason::lease ? why : "is fenced");
}

void scheduler_state::remove_worker(worker_id id, const std::string& why) {
  if (const auto* member = members_.find(id))
    report({{"worker-gone", described(member->hello.address) + " " + why}});
  requests_->removed(id);
  members_.remove(id);
  count_workers();
  failures_.removed(id);
  requests_->admission().remove_worker(id);
  experts_.removed(id);
  orders_.removed(id);
  links_.remove(id);
  departures_.removed(id);
  views_.worker_changed(id);
}

void scheduler_state::down(const caf::actor_addr& source, const caf::error& reason) {
  // A worker that shuts down when nobody needs it any more takes no leave; that is no death.
  const auto has_left = reason == caf::exit_reason::user_shutdown;
  // A process that has died looks the same as one to which the way is lost.
  const auto is_cut = reason == caf::exit_reason::remote_link_unreachable;
  if (const auto id = links_.find(source)) {
    // Keep the old view: half a view would abandon the others' requests, and load their experts elsewhere.
    if (const auto* member = members_.find(*id); !has_left && failures_.was_held_up(now())
                                                 && member != nullptr
                                                 && member->hello.address.role != worker_role::gateway)
      recovery_.expect(member->hello.address, now());
    if (is_cut)
      requests_->cut(*id, now());
    remove_worker(*id, has_left ? "has left" : "has died");
    act_at_once();
  }
  if (links_.forget_gateway(source))
    requests_->actor_down(key_of(source), is_cut, now());
  step();
}

void scheduler_state::tick() {
  if (const auto late = failures_.tick(now()); late > time_point::duration{}) {
    members_.extend(late, now());
    requests_->extend(late);
    if (disk_.has_lease() && late > defaults::scheduler_lease)
      terms_.doubt(now());
    report(late_event(late));
  }
  disk_.renew_lease();
  disk_.check_disk();
  for (const auto& address : recovery_.give_up(now())) {
    views_.worker_changed(address.id);
    report({{"worker-gone", described(address) + " has not come back"}});
  }
  while (const auto dead = failures_.next_dead(members_, views_.published(), is_recovering(), now()))
    fence(*dead);
  requests_->expire(now(), views_.published().ready);
  act(); // a pause may have passed, or a recovery ended
  step();
}

scheduler_status scheduler_state::status() const {
  scheduler_status result;
  result.term = terms_.term();
  result.ready = views_.published().ready;
  result.fingerprint = members_.identity().fingerprint;
  result.experts = views_.published().experts;
  result.workers = members_.describe(now(), [this](worker_id id) { return experts_.rollout().hosted(id); });
  result.queued = requests_->admission().num_queued();
  result.assigned = requests_->admission().num_placed();
  return result;
}

void scheduler_state::shut_down() {
  const auto reason = make_error(ec::shutting_down, "the scheduler is shutting down");
  // Workers that leave are not let go before the cluster goes: they serve on, and ask the next scheduler.
  const auto is_over = whole_cluster_goes();
  requests_->shut_down(reason);
  departures_.shut_down(is_over ? caf::error{} : reason);
  moves_.shut_down(reason);
}

// ---------------------------------------------------------------------------------------------------------------
// Requests

void scheduler_state::admit(const admission_request& request, const caf::strong_actor_ptr& owner,
                            request_desk::answer reply) {
  const auto trace = timeline::key_if_traced(request.context);
  timeline::span admitting(timeline::event_kind::admit, trace);
  admitting.args() = {request.id.value, request.attempt};
  if (trace != 0)
    timeline::name_request(trace, request.context, request.id.value);
  const auto from = owner ? std::optional{key_of(owner->address())} : std::nullopt;
  if (!requests_->admit(request, from, std::move(reply), now()))
    return;
  if (owner)
    links_.add_gateway(owner);
  step();
}

void scheduler_state::done(request_id id, std::uint32_t num_tokens) {
  requests_->done(id, num_tokens);
  step();
}

void scheduler_state::step() {
  if (views_.published().ready)
    requests_->place(members_, now());
  finish_departures();
  moves_.finish(experts_, members_);
  requests_->report_load();
}

// ---------------------------------------------------------------------------------------------------------------
// Experts and views

void scheduler_state::act_soon() {
  experts_.changed();
  gather();
}

void scheduler_state::gather() {
  if (!std::exchange(is_gathering_, true))
    self_->delayed_send(self_, defaults::gather_changes, gather_atom_v);
}

void scheduler_state::act_at_once() {
  if (views_.has_just_published(now()))
    return act_soon();
  experts_.changed();
  act();
}

void scheduler_state::gathered() {
  is_gathering_ = false;
  act();
  step();
}

void scheduler_state::act() {
  if (is_recovering() || terms_.is_doubtful(now()))
    return;
  experts_.repair(members_);
  if (const auto room = experts_.check_room()) {
    config_.metrics->on_room(room->num_without);
    report(room->event);
  }
  if (views_.has_changed() || experts_.rollout().wants_route())
    publish();
  for (auto id : std::set{experts_.rollout().hosts_with_orders()}) // a copy: an order changes the set
    if (orders_.may_order(id, now()))
      give_order(id);
  if (const auto unbalanced = experts_.settle(orders_.are_idle(now()))) {
    gather();
    report(unbalanced);
  }
  for (auto id : experts_.take_ready())
    links_.send_ready(id);
}

void scheduler_state::publish() {
  traces_.published();
  const auto routing = experts_.rollout().route(terms_.term(), views_.next_epoch());
  const auto context = requests_->admission().longest_context();
  const auto ready = experts_.rollout().is_complete() && members_.count(worker_role::attention) > 0;
  if (ready != views_.published().ready)
    report(readiness_event(ready, members_, context));
  const auto messages = views_.publish(routing, members_, {ready, static_cast<std::uint32_t>(context)},
                                       recovery_.missed(), now());
  config_.metrics->on_published(views_.published().experts, ready);
  links_.send_views(messages, members_);
  disk_.save();
}

caf::expected<shared_view_change> scheduler_state::view_of(worker_id id) {
  const auto* member = members_.find(id);
  if (member == nullptr)
    return make_error(ec::not_ready, "a worker that is not here joins before it is sent a view");
  report({{"view-missed", described(member->hello.address) + " asks for the whole view"}});
  return views_.whole(member->hello.address.role);
}

void scheduler_state::give_order(worker_id id) {
  if (const auto order = orders_.next(id, terms_.term(), members_, experts_.rollout()))
    links_.send_order(id, *order,
                      [this, id, number = order->order](const host_report* report, const std::string& error) {
                        order_done(id, number, report, error);
                      });
}

void scheduler_state::order_done(worker_id id, std::uint64_t order, const host_report* report,
                                 const std::string& error) {
  if (!orders_.end(id, order))
    return;
  act_soon();
  if (report != nullptr)
    experts_.rollout().reported(id, report->hosted);
  if (error.empty()) {
    orders_.succeeded(id);
    if (!is_recovering())
      give_order(id); // a host with more to load need not wait for the changes of others
  } else {
    const auto text = described(members_.find(id)->hello.address) + ": " + error;
    this->report({{"host-order-failed", text}});
    moves_.abandon(id, text, experts_, members_);
    orders_.failed(id, now());
  }
  step();
}

fleet_ptr scheduler_state::describe_fleet() {
  return experts_.describe(members_, experts_.has_target() && is_recovering(), !moves_.is_empty());
}

void scheduler_state::move_expert(const expert_move& move, move_desk::answer when_over) {
  if (!experts_.has_target() || is_recovering() || terms_.is_doubtful(now()))
    return when_over(make_error(ec::not_ready, "the scheduler has no placement yet"));
  if (auto error = moves_.check(move, experts_, members_))
    return when_over(error);
  moves_.begin(move, experts_, std::move(when_over));
  act_soon();
}

void scheduler_state::set_drained(std::set<std::string> names) {
  if (const auto events = experts_.set_drained(std::move(names), members_)) {
    for (const auto& event : *events)
      report(event);
    act_soon();
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Traces

void scheduler_state::trace(const trace_command& command, std::function<void(const trace_receipt&)> reply) {
  report(traces_.command(command));
  if (views_.has_published()) // otherwise the first view saves it; until then the placement on disk is kept
    disk_.save();
  const auto receipts = links_.send_trace(command, members_, std::move(reply));
  receipts->add({{{"scheduler", timeline::start(command.share_ppm / million)}}});
}

// ---------------------------------------------------------------------------------------------------------------
// Term and state directory

void scheduler_state::raise_term(std::uint64_t above, const std::string& by) {
  report(terms_.raise(above, by, links_.ids()));
  views_.restart_epochs();
  experts_.rollout().restart_epochs();
}

stored_cluster scheduler_state::snapshot() const {
  auto stored = stored_of(members_.identity(), views_.published());
  if (traces_.current())
    stored.traced_ppm = traces_.current()->share_ppm;
  return stored;
}

} // namespace troupe
