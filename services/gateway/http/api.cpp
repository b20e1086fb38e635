#include "services/gateway/http/api.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>

#include <nlohmann/json.hpp>

#include "actors/defaults.hpp"
#include "services/gateway/http/cluster_page.hpp"
#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/generation.hpp"
#include "services/gateway/http/placement_command.hpp"
#include "services/gateway/http/placement_page.hpp"
#include "services/gateway/http/reply_slot.hpp"
#include "services/gateway/http/request_target.hpp"
#include "services/gateway/http/text_work.hpp"
#include "services/gateway/http/trace_page.hpp"
#include "services/gateway/openai/plan.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/history/history_json.hpp"

namespace troupe::http {

using nlohmann::ordered_json;
using openai::api_error;

namespace {

constexpr route routes[] = {
    {route::id::cluster, "/cluster"},
    {route::id::completions, "/v1/completions", true},
    {route::id::chat_completions, "/v1/chat/completions", true},
    {route::id::detokenize, "/detokenize", true},
    {route::id::health, "/health", false, true},
    {route::id::history, "/cluster/history"},
    {route::id::metrics, "/metrics", false, true},
    {route::id::model, "/v1/models/"}, // and a name behind it
    {route::id::models, "/v1/models"},
    {route::id::placement, "/cluster/placement"},
    {route::id::placement_change, "/cluster/placement", true, false, max_placement_command_bytes},
    {route::id::ready, "/ready", false, true},
    {route::id::tokenize, "/tokenize", true},
    {route::id::trace, "/cluster/trace", true, false, max_trace_command_bytes},
    {route::id::version, "/version"},
};

/// The gateway's own actor and the scheduler answer within their own deadlines; these only guard against none
/// at all. Probes must not hang.
constexpr auto view_deadline = std::chrono::milliseconds{2000};
constexpr auto status_deadline = std::chrono::milliseconds{8000};
constexpr auto command_deadline =
    defaults::placement_command + 2 * defaults::local_request + defaults::connect_timeout;

/// Windows of the history where a query names no number: some megabytes of a large model.
constexpr uint32_t history_windows = 32;

std::string render(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json model_card(const api& shared, const std::string& name, std::time_t created) {
  ordered_json card;
  card["id"] = name;
  card["object"] = "model";
  card["created"] = created;
  card["owned_by"] = "troupe";
  card["root"] = name; // no path: it would tell how this machine is laid out
  card["parent"] = nullptr;
  card["max_model_len"] = limits_now(shared).max_model_len;
  return card;
}

response models_page(const api& shared) {
  ordered_json list = ordered_json::array();
  for (const std::string& name : shared.config.model_names)
    list.push_back(model_card(shared, name, shared.started));
  ordered_json page;
  page["object"] = "list";
  page["data"] = std::move(list);
  return json_response(200, render(page));
}

response model_page(const api& shared, const std::string& path) {
  const std::string name = served_model(shared, path.substr(std::string_view{"/v1/models/"}.size()));
  return json_response(200, render(model_card(shared, name, shared.started)));
}

response metrics_page(const api& shared) {
  response page = json_response(200, shared.metrics->families().text());
  page.content_type = metrics::text_content_type;
  return page;
}

response version_page(const api& shared) {
  ordered_json page;
  page["version"] = shared.config.version;
  for (const auto& [name, value] : shared.config.details)
    page[name] = value;
  return json_response(200, render(page));
}

using view_answer = std::variant<last_view, backend_error>;
using status_answer = std::variant<scheduler_status, backend_error>;
using history_answer = std::variant<history_snapshot, backend_error>;
using placement_answer = std::variant<rebalancer_status, backend_error>;
using change_answer = std::variant<placement_change, backend_error>;
using trace_answers = std::variant<trace_receipt, backend_error>;

task<std::optional<last_view>> view_of(exchange& client, api& shared) {
  reply_slot<view_answer> slot{client.executor()};
  shared.backend->view(slot.callback());
  const auto answer = co_await slot.wait(view_deadline);
  if (!answer || !std::holds_alternative<last_view>(*answer))
    co_return std::nullopt;
  co_return std::get<last_view>(*answer);
}

/// Of this process alone, and without the pool: it must be answered while that is stuck.
response health_page(const api& shared) {
  const std::string flaw = shared.vitals.flaw();
  if (flaw.empty())
    return json_response(200, R"({"status":"ok"})");
  ordered_json page;
  page["status"] = "stuck";
  page["reason"] = flaw;
  return json_response(503, render(page));
}

task<response> ready_page(exchange& client, api& shared) {
  std::string reason;
  if (shared.draining) {
    reason = "draining";
  } else {
    const auto view = co_await view_of(client, shared);
    if (!view)
      reason = "the gateway does not answer";
    else if (view->scheduler_away)
      reason = "the scheduler is away";
    else if (!view->cluster.ready)
      reason = "not every expert has a host and an attention worker to use it";
  }
  ordered_json page;
  page["ready"] = reason.empty();
  if (reason.empty())
    co_return json_response(200, render(page));
  page["reason"] = reason;
  response answer = json_response(503, render(page));
  answer.headers.emplace_back("retry-after", "1");
  co_return answer;
}

task<response> status_page(exchange& client, api& shared) {
  reply_slot<status_answer> slot{client.executor()};
  shared.backend->status(slot.callback());
  const auto answer = co_await slot.wait(status_deadline);
  if (answer && std::holds_alternative<scheduler_status>(*answer))
    co_return json_response(200, cluster_page(std::get<scheduler_status>(*answer)));
  const std::string why = answer ? std::get<backend_error>(*answer).text : "no answer in time";
  const auto view = co_await view_of(client, shared);
  if (!view)
    throw api_error_of(ec::not_ready, "neither scheduler nor gateway answers: " + why);
  co_return json_response(200, cluster_page(*view, why));
}

/// How many windows a query asks for.
uint32_t windows_of(std::string_view query) {
  constexpr uint32_t most = defaults::max_history_windows;
  const auto asked = parameter_of(query, "windows");
  if (!asked)
    return history_windows;
  uint32_t count = 0;
  const char* end = asked->data() + asked->size();
  const auto read = std::from_chars(asked->data(), end, count);
  if (asked->empty() || read.ec != std::errc{} || read.ptr != end || count > most)
    throw api_error(400, "invalid_request_error",
                    "windows must be a whole number from 0 to " + std::to_string(most), "windows");
  return count;
}

task<response> history_page(exchange& client, api& shared) {
  const uint32_t count = windows_of(client.incoming().query);
  reply_slot<history_answer> slot{client.executor()};
  shared.backend->history(count, slot.callback());
  const auto answer = co_await slot.wait(status_deadline);
  if (!answer)
    throw api_error_of(ec::not_ready, "the history does not answer in time");
  if (const auto* error = std::get_if<backend_error>(&*answer))
    throw api_error_of(ec::not_ready, error->text);
  const auto& known = std::get<history_snapshot>(*answer);
  size_t bytes = 0; // about as much as is to be done
  for (const history_window& window : known.windows)
    bytes += window.encoded.size();
  co_return co_await shared.work.run(bytes, [&] { return json_response(200, history_json(known)); });
}

task<response> placement_page_of(exchange& client, api& shared) {
  reply_slot<placement_answer> slot{client.executor()};
  shared.backend->placement(slot.callback());
  const auto answer = co_await slot.wait(status_deadline);
  if (!answer)
    throw api_error_of(ec::not_ready, "the rebalancer does not answer in time");
  if (const auto* error = std::get_if<backend_error>(&*answer))
    throw api_error_of(error->code, error->text);
  co_return json_response(200, placement_page(std::get<rebalancer_status>(*answer)));
}

task<response> change_placement(exchange& client, api& shared) {
  const std::string& body = client.incoming().body;
  const auto asked = co_await shared.work.run(body.size(), [&] { return parse_placement_command(body); });
  reply_slot<change_answer> slot{client.executor()};
  shared.backend->change_placement(asked, slot.callback());
  const auto answer = co_await slot.wait(command_deadline);
  const auto* failure = answer ? std::get_if<backend_error>(&*answer) : nullptr;
  if (!answer || failure != nullptr) {
    auto error = failure != nullptr
                     ? api_error_of(failure->code, failure->text)
                     : api_error_of(ec::deadline_exceeded,
                                    "the gateway's actors did not answer in time; the command may "
                                    "have been carried out all the same");
    if (error.code == reason_of(ec::deadline_exceeded) || error.code == reason_of(ec::peer_down))
      error.retry_after = 0; // nobody should repeat it without looking
    throw error;
  }
  const auto& change = std::get<placement_change>(*answer);
  co_return co_await shared.work.run(change.experts.size() * sizeof(expert_change),
                                     [&] { return json_response(200, change_page(change, asked.dry_run)); });
}

task<response> change_tracing(exchange& client, api& shared) {
  const auto asked = parse_trace_command(client.incoming().body);
  reply_slot<trace_answers> slot{client.executor()};
  shared.backend->trace(asked, slot.callback());
  const auto answer = co_await slot.wait(status_deadline);
  if (!answer)
    throw api_error_of(ec::deadline_exceeded, "the gateway's actors did not answer in time");
  if (const auto* failure = std::get_if<backend_error>(&*answer))
    throw api_error_of(failure->code, failure->text);
  co_return json_response(200, trace_receipt_page(std::get<trace_receipt>(*answer)));
}

response tokenize_page(const std::string& body, const api& shared) {
  const openai::tokenize_request asked = openai::parse_tokenize_request(body, shared.config.requests);
  served_model(shared, asked.model);
  const auto tokens =
      asked.prompt ? openai::encode_text(*asked.prompt, asked.add_special_tokens, *shared.codec, "prompt")
                   : openai::encode_conversation(*asked.chat, asked.add_special_tokens, *shared.codec);
  ordered_json page;
  page["count"] = tokens.size();
  page["max_model_len"] = limits_now(shared).max_model_len;
  page["tokens"] = tokens;
  page["token_strs"] = nullptr;
  if (asked.return_token_strings) {
    ordered_json entries = ordered_json::array();
    for (const int32_t token : tokens)
      entries.push_back(shared.codec->token_entry(token));
    page["token_strs"] = std::move(entries);
  }
  return json_response(200, render(page));
}

response detokenize_page(const std::string& body, const api& shared) {
  const openai::detokenize_request asked = openai::parse_detokenize_request(body, shared.config.requests);
  served_model(shared, asked.model);
  ordered_json page;
  page["prompt"] = shared.codec->decode(asked.tokens, false);
  return json_response(200, render(page));
}

task<response> answer_page(exchange& client, api& shared, const route& where) {
  const request& asked = client.incoming();
  switch (where.what) {
  case route::id::health:
    co_return health_page(shared);
  case route::id::ready:
    co_return co_await ready_page(client, shared);
  case route::id::version:
    co_return version_page(shared);
  case route::id::metrics:
    co_return metrics_page(shared);
  case route::id::models:
    co_return models_page(shared);
  case route::id::model:
    co_return model_page(shared, asked.path);
  case route::id::cluster:
    co_return co_await status_page(client, shared);
  case route::id::history:
    co_return co_await history_page(client, shared);
  case route::id::placement:
    co_return co_await placement_page_of(client, shared);
  case route::id::placement_change:
    co_return co_await change_placement(client, shared);
  case route::id::trace:
    co_return co_await change_tracing(client, shared);
  case route::id::tokenize: {
    const key_permit permit = shared.usage.admit(asked.key_name);
    co_return co_await run_for(client, shared, asked.body.size(),
                               [&] { return tokenize_page(asked.body, shared); });
  }
  case route::id::detokenize: {
    const key_permit permit = shared.usage.admit(asked.key_name);
    co_return co_await run_for(client, shared, asked.body.size(),
                               [&] { return detokenize_page(asked.body, shared); });
  }
  case route::id::completions:
  case route::id::chat_completions:
    break;
  }
  throw api_error(500, "server_error", "no handler for this route");
}

task<void> answer(exchange& client, api& shared, const route& where) {
  if (where.what == route::id::completions || where.what == route::id::chat_completions) {
    co_await generate(client, shared, where.what == route::id::chat_completions);
  } else {
    response page = co_await answer_page(client, shared, where);
    co_await client.send(std::move(page));
  }
}

} // namespace

openai::request_limits limits_now(const api& shared) {
  openai::request_limits limits = shared.config.requests;
  if (const uint32_t held = shared.backend->max_model_len(); held > 0)
    limits.max_model_len = std::min(limits.max_model_len, held);
  return limits;
}

const route& find_route(std::string_view method, std::string_view path, std::string& allow) {
  const bool model_name =
      path.starts_with("/v1/models/") && path.size() > std::string_view{"/v1/models/"}.size();
  for (const route& known : routes) {
    if (path != known.path && !(known.what == route::id::model && model_name))
      continue;
    if (known.what == route::id::model && !model_name)
      break;
    allow += std::string(allow.empty() ? "" : ", ") + (known.post ? "POST" : "GET, HEAD");
    if (known.post ? method == "POST" : method == "GET" || method == "HEAD")
      return known;
  }
  if (!allow.empty())
    throw api_error(405, "invalid_request_error",
                    "Method " + std::string(method) + " is not allowed for " + std::string(path) + "; use "
                        + allow,
                    {}, "method_not_allowed");
  throw api_error(404, "invalid_request_error",
                  "Unknown request URL: " + std::string(method) + " " + std::string(path), {}, "unknown_url");
}

response error_response(const api_error& error) {
  response answer = json_response(error.status, openai::error_body(error));
  answer.error = error.what();
  if (error.retry_after > 0)
    answer.headers.emplace_back("retry-after", std::to_string(error.retry_after));
  return answer;
}

api_error refused_for_room(const api& shared, const std::string& text) {
  shared.metrics->rejected(reason_of(ec::overloaded));
  return api_error_of(ec::overloaded, text);
}

response answer_to_exception(const api& shared) {
  try {
    throw;
  } catch (const api_error& e) {
    return error_response(e);
  } catch (const background::too_busy& e) {
    return error_response(refused_for_room(shared, e.what()));
  } catch (const text::text_unavailable& e) {
    return error_response(refused_for_room(shared, e.what()));
  } catch (const std::exception& e) {
    return error_response(api_error(500, "server_error", std::string("internal error: ") + e.what()));
  }
}

std::string served_model(const api& shared, const std::string& asked) {
  const auto& names = shared.config.model_names;
  if (asked.empty())
    return names.front();
  for (const std::string& name : names)
    if (name == asked)
      return name;
  throw api_error(404, "invalid_request_error", "The model `" + asked + "` does not exist", "model",
                  "model_not_found");
}

task<void> handle(exchange& client, api& shared, const route& where) {
  std::optional<response> refusal;
  try {
    co_await answer(client, shared, where);
  } catch (const text::work_cancelled&) { // nobody reads an answer
    shared.metrics->client_gone(client.too_slow());
  } catch (const std::exception&) {
    refusal = answer_to_exception(shared);
  }
  // A handler that failed may have left a watch that calls into it.
  co_await client.unwatch();
  if (refusal)
    co_await client.send(std::move(*refusal));
}

} // namespace troupe::http
