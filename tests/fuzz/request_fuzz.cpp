// Request bodies: each becomes a plan or one api_error, and a plan becomes an answer in valid JSON.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/response.hpp"
#include "tests/unit/http/fake_codec.hpp"

namespace {

using namespace troupe;
using namespace troupe::openai;

const request_limits limits = [] {
  request_limits result;
  result.max_model_len = 512;
  result.vocab_size = http_test::vocab_size;
  result.max_sequences = 16;
  result.eos_token_ids = {http_test::eos};
  return result;
}();

generated_token token_of(std::int32_t id) {
  generated_token token;
  token.token = id;
  token.logprob = -1;
  token.rank = 1;
  token.top = {{id, -1, 1}, {0x80, -2, 2}};
  return token;
}

/// Sends the body's own bytes as the answer of every choice, and formats all that clients can see.
void answer(const generation_plan& plan, std::string_view bytes, const http_test::fake_codec& codec) {
  const response_writer writer{"id", "model", "fp", 0, plan, codec};
  std::vector<generated_token> prompt_logprobs;
  for (std::size_t i = 1; i < plan.prompts[0].tokens.size(); ++i)
    prompt_logprobs.push_back(token_of(plan.prompts[0].tokens[i]));
  choice state{codec, plan.options, plan.prompts[0].tokens};
  answered_choice whole{0, {}, &state, &plan.prompts[0], &prompt_logprobs};
  const auto check = [](const std::string& text) {
    if (!nlohmann::json::accept(text))
      std::abort();
  };
  for (const char byte : bytes.substr(0, static_cast<std::size_t>(plan.prompts[0].max_tokens))) {
    choice_delta delta = state.push(token_of(static_cast<unsigned char>(byte)));
    check(
        writer.token_chunk({0, delta, &state, &plan.prompts[0], &prompt_logprobs}, state.num_tokens() == 1));
    append(whole.gained, std::move(delta));
  }
  append(whole.gained, state.finish(finish_reason::length));
  check(writer.role_chunk(whole));
  std::string body;
  writer.begin_body(body);
  writer.add_choice(body, whole, true);
  writer.end_body(body, whole, {});
  check(body);
}

} // namespace

/// The first byte picks the endpoint, the rest is the body.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  static const http_test::fake_codec codec;
  const std::string_view body{reinterpret_cast<const char*>(data) + 1, size - 1};
  try {
    switch (data[0] % 4) {
    case 0:
      answer(make_plan(parse_completion_request(body, limits), codec, limits, 1), body, codec);
      break;
    case 1:
      answer(make_plan(parse_chat_completion_request(body, limits), codec, limits, 1), body, codec);
      break;
    case 2:
      parse_tokenize_request(body, limits);
      break;
    default:
      parse_detokenize_request(body, limits);
    }
  } catch (const api_error& error) {
    if (!nlohmann::json::accept(error_body(error)))
      std::abort();
  }
  return 0;
}
