#include "services/gateway/http/generation.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "actors/timeline/timeline.hpp"
#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/generation_run.hpp"
#include "services/gateway/http/key_usage.hpp"
#include "services/gateway/http/text_work.hpp"

namespace troupe::http {

using openai::api_error;
using openai::generation_plan;

namespace {

/// Seeds that JSON numbers carry exactly, so that every client can send them back.
constexpr std::int64_t largest_seed = (std::int64_t{1} << 53) - 1;

std::int64_t draw_seed() {
  std::random_device source;
  return static_cast<std::int64_t>((std::uint64_t{source()} << 32 | source())
                                   & static_cast<std::uint64_t>(largest_seed));
}

/// Empty if refusals cannot be shared: lists of prompts are admitted one by one, prioritised requests may
/// overtake, and the size of a truncated prompt is unknown.
std::optional<room_demand> demand_of(const openai::generation_options& options, std::size_t num_prompts,
                                     bool chat, std::size_t body_bytes) {
  if (num_prompts != 1 || options.priority != 0 || options.truncate_prompt)
    return std::nullopt;
  if (options.max_tokens)
    return room_demand{body_bytes,
                       std::uint64_t{options.num_choices} * static_cast<std::uint64_t>(*options.max_tokens)};
  if (chat) // gets what fits
    return room_demand{body_bytes, std::numeric_limits<std::uint64_t>::max()};
  return std::nullopt;
}

/// Refuses a request if the cluster has just refused one of the same key that asked for no more.
void refuse_as_others(const std::optional<room_demand>& wanted, api& shared, const key_permit& permit) {
  if (!wanted)
    return;
  const auto refusal = shared.refusals.find(permit.name(), *wanted, shared.config.key_clock());
  if (!refusal)
    return;
  shared.metrics->rejected(reason_of(ec::overloaded));
  throw api_error(*refusal);
}

/// Warns the operator of arguments that were replaced; the answer to the client does not show it.
void warn_of_arguments(const openai::conversation& chat, const std::string& request_id, const api& shared) {
  const auto& replaced = chat.replaced_arguments;
  if (replaced.empty() || !shared.config.warn)
    return;
  const std::string count =
      replaced.size() == 1 ? "" : " (" + std::to_string(replaced.size()) + " such arguments in this request)";
  shared.config.warn("request " + request_id + ": " + replaced.front()
                     + " is not a JSON object, the chat template gets {}" + count);
}

} // namespace

task<void> generate(exchange& client, api& shared, bool chat) {
  const auto arrival = std::chrono::steady_clock::now();
  const request_context context{client.incoming().id, client.incoming().traceparent};
  const auto trace = timeline::key_if_traced(context);
  if (trace != 0)
    timeline::name_request(trace, context, 0);
  key_permit permit = shared.usage.admit(client.incoming().key_name);
  std::string model;
  std::optional<room_demand> wanted;
  // The body can be megabytes, so an I/O thread must not parse it.
  generation_plan plan =
      co_await run_for(client, shared, client.incoming().body.size(), [&]() -> generation_plan {
        const auto limits = limits_now(shared);
        const std::string& body = client.incoming().body;
        timeline::span preparing(timeline::event_kind::prepare_text, trace);
        preparing.args() = {body.size()};
        if (chat) {
          auto asked = openai::parse_chat_completion_request(body, limits);
          model = served_model(shared, asked.options.model);
          wanted = demand_of(asked.options, 1, chat, body.size());
          refuse_as_others(wanted, shared, permit);
          warn_of_arguments(asked.chat, client.incoming().id, shared);
          return openai::make_plan(std::move(asked), *shared.codec, limits, draw_seed());
        }
        auto asked = openai::parse_completion_request(body, limits);
        model = served_model(shared, asked.options.model);
        wanted = demand_of(asked.options, asked.prompts.size(), chat, body.size());
        refuse_as_others(wanted, shared, permit);
        return openai::make_plan(std::move(asked), *shared.codec, limits, draw_seed());
      });
  client.drop_body();
  std::size_t prompt_tokens = 0;
  for (const auto& prompt : plan.prompts)
    prompt_tokens += prompt.tokens.size();
  permit.take_prompt(prompt_tokens);
  if (!permit.may_go_first())
    plan.options.priority = std::max(0, plan.options.priority);
  // A name of its own: GCC 12 destroys braces in the arguments of a coroutine twice.
  planned_generation planned{std::move(plan), std::move(model), permit, wanted, arrival, trace};
  co_await run_generation(client, shared, std::move(planned));
}

} // namespace troupe::http
