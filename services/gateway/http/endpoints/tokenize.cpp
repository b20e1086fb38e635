#include "services/gateway/http/endpoints/endpoint.hpp"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/gateway/http/text_work.hpp"
#include "services/gateway/openai/plan.hpp"

namespace troupe::http {

using nlohmann::ordered_json;

namespace {

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
    for (const std::int32_t token : tokens)
      entries.push_back(shared.codec->token_entry(token));
    page["token_strs"] = std::move(entries);
  }
  return page_response(200, page);
}

response detokenize_page(const std::string& body, const api& shared) {
  const openai::detokenize_request asked = openai::parse_detokenize_request(body, shared.config.requests);
  served_model(shared, asked.model);
  ordered_json page;
  page["prompt"] = shared.codec->decode(asked.tokens, false);
  return page_response(200, page);
}

} // namespace

task<void> post_tokenize(exchange& client, api& shared) {
  const request& asked = client.incoming();
  const key_permit permit = shared.usage.admit(asked.key_name);
  response page =
      co_await run_for(client, shared, asked.body.size(), [&] { return tokenize_page(asked.body, shared); });
  co_await client.send(std::move(page));
}

task<void> post_detokenize(exchange& client, api& shared) {
  const request& asked = client.incoming();
  const key_permit permit = shared.usage.admit(asked.key_name);
  response page = co_await run_for(client, shared, asked.body.size(),
                                   [&] { return detokenize_page(asked.body, shared); });
  co_await client.send(std::move(page));
}

} // namespace troupe::http
