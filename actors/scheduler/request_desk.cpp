#include "actors/scheduler/request_desk.hpp"

#include <variant>
#include <vector>

#include "actors/protocol/error.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

/// Only for requests whose gateway has said what they are called in logs.
void request_desk::event(request_id id, const char* what, const std::string& text) const {
  if (const auto found = owners_.find(id); found != owners_.end() && !found->second.context.id.empty())
    metrics_->on_request({what, found->second.context, text});
}

void request_desk::reply(request_id id, const caf::expected<assignment>& with) {
  if (auto found = waiting_.find(id); found != waiting_.end()) {
    found->second(with);
    waiting_.erase(found);
  }
}

bool request_desk::admit(const admission_request& request, const std::optional<actor_key>& from,
                         answer reply_to, time_point now) {
  if (waiting_.contains(request.id))
    refuse(request.id, make_error(ec::cancelled, "the request was made again"));
  auto error = admission_.enqueue(request, now);
  for (auto& [id, reason] : admission_.take_displaced())
    refuse(id, reason);
  if (error) {
    metrics_->on_refused(code_of(error));
    if (!request.context.id.empty())
      metrics_->on_request({"request-refused", request.context, text_of(error)});
    owners_.erase(request.id); // a replay that is refused has lost its earlier place
    reply_to(error);
    return false;
  }
  waiting_[request.id] = std::move(reply_to);
  if (from) {
    owners_[request.id] = {*from, request.gateway, {}, request.context, request.attempt};
    event(request.id, "request-queued",
          std::to_string(request.prompt_tokens) + " prompt tokens, " + std::to_string(request.num_choices)
              + " choices, attempt " + std::to_string(request.attempt));
  }
  return true;
}

void request_desk::refuse(request_id id, const caf::error& error) {
  metrics_->on_refused(code_of(error));
  event(id, "request-refused", text_of(error));
  owners_.erase(id);
  reply(id, error);
}

void request_desk::forget(request_id id, const caf::error& reason) {
  admission_.release(id);
  owners_.erase(id);
  reply(id, reason);
}

void request_desk::done(request_id id, std::uint32_t num_tokens) {
  admission_.answered(id, num_tokens);
  event(id, "request-released", "its place is free");
  forget(id, make_error(ec::cancelled, "the request is no longer wanted"));
}

void request_desk::place(const member_table& members, time_point now) {
  for (const auto& [id, worker, num_choices, kv_tokens, waited] : admission_.place(now)) {
    metrics_->on_admitted(waited);
    const auto& address = members.find(worker)->hello.address;
    event(id, "request-placed",
          "on " + address.name + " after "
              + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(waited).count())
              + " ms in the queue");
    if (timeline::is_on())
      trace_place(id, worker, waited);
    reply(id, assignment{id, address, num_choices, kv_tokens, members.numerics()});
  }
}

void request_desk::trace_place(request_id id, worker_id worker, std::chrono::nanoseconds waited) const {
  const auto owner = owners_.find(id);
  const auto trace = owner == owners_.end() ? 0 : timeline::key_if_traced(owner->second.context);
  if (trace == 0)
    return;
  timeline::event queued{.kind = timeline::event_kind::queue};
  queued.id = trace;
  queued.duration_ns = static_cast<std::uint64_t>(waited.count());
  queued.begin_ns = timeline::now_ns() - queued.duration_ns;
  queued.args = {id.value, owner->second.attempt, worker.value};
  timeline::record(queued);
}

void request_desk::expire(time_point now, bool is_ready) {
  orphan([now](const ownership& whose) { return whose.kept_until && *whose.kept_until <= now; }, false, now);
  for (auto& [id, error] : admission_.expire(now, is_ready))
    refuse(id, error);
}

void request_desk::extend(time_point::duration by) {
  for (auto& [id, whose] : owners_)
    if (whose.kept_until)
      *whose.kept_until += by;
}

void request_desk::shut_down(const caf::error& reason) {
  for (auto& [id, reply_to] : waiting_)
    reply_to(reason);
  waiting_.clear();
}

void request_desk::adopt(const worker_hello& gateway) {
  const auto id = gateway.address.id;
  orphan([id](const ownership& whose) { return whose.gateway == id; }, false, {});
  for (const auto& place : std::get<gateway_terms>(gateway.of_role).places) {
    reply(place.request, make_error(ec::cancelled, "the request has a place"));
    admission_.adopt(place);
    auto& whose = owners_[place.request];
    whose = {{}, id, {}, std::move(whose.context), whose.attempt};
  }
}

void request_desk::cut(worker_id gateway, time_point now) {
  orphan([gateway](const ownership& whose) { return whose.gateway == gateway; }, true, now);
}

void request_desk::removed(worker_id gateway) {
  orphan([gateway](const ownership& whose) { return whose.gateway == gateway && !whose.kept_until; }, false,
         {});
}

void request_desk::actor_down(const actor_key& gateway, bool is_cut, time_point now) {
  orphan([&gateway](const ownership& whose) { return whose.actor == gateway; }, is_cut, now);
}

void request_desk::orphan(const owner_test& is_its, bool is_cut, time_point now) {
  std::vector<request_id> lost;
  for (auto& [id, whose] : owners_) {
    if (!is_its(whose))
      continue;
    if (is_cut && !waiting_.contains(id))
      whose.kept_until = now + defaults::lease;
    else
      lost.push_back(id);
  }
  // All of them first: a free place is for a request that is still wanted.
  for (auto id : lost)
    forget(id, make_error(ec::peer_down, "the gateway has not renewed its lease, or has joined anew"));
}

void request_desk::report_load() const {
  metrics_->on_requests(admission_.num_queued(), admission_.queued_bytes(), admission_.num_placed());
  const auto memory = admission_.kv_tokens();
  metrics_->on_memory({memory.reserved, memory.used, memory.capacity, admission_.likely_new_tokens()});
}

} // namespace troupe
