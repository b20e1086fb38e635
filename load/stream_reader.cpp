#include "load/stream_reader.hpp"

#include <nlohmann/json.hpp>

namespace troupe::load {

namespace {

/// Reads a count from a field; one that is missing, null or of another type is ignored.
void take_count(const nlohmann::json& usage, const char* field, unsigned& count) {
  auto found = usage.find(field);
  if (found != usage.end() && found->is_number_unsigned())
    count = found->get<unsigned>();
}

/// The text of an error: servers send {"message": "..."} or a string; otherwise all that was sent.
std::string error_text(const nlohmann::json& error, const std::string& data) {
  if (error.is_string())
    return error.get<std::string>();
  bool has_message = error.is_object() && error.contains("message") && error["message"].is_string();
  return has_message ? error["message"].get<std::string>() : data;
}

} // namespace

void stream_reader::take(const std::string& data, double seconds) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const auto chunk = nlohmann::json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (chunk.contains("error") && !chunk["error"].is_null()) {
    record_.error = error_text(chunk["error"], data);
  } else if (chunk.contains("usage") && chunk["usage"].is_object()) {
    take_count(chunk["usage"], "prompt_tokens", record_.input_tokens);
    take_count(chunk["usage"], "completion_tokens", record_.output_tokens);
  }
  if (record_.model.empty() && chunk.is_object() && chunk.contains("model") && chunk["model"].is_string())
    record_.model = chunk["model"].get<std::string>();
  if (!chunk.contains("choices") || !chunk["choices"].is_array() || chunk["choices"].empty())
    return;
  const auto& choice = chunk["choices"][0];
  if (keeps_text_ && choice.is_object() && choice.contains("text") && choice["text"].is_string())
    record_.text += choice["text"].get<std::string>();
  // Every chunk with a choice counts as a token, as in `vllm bench serve`: text may be held back, and that of
  // an end token is empty.
  if (!begun_) {
    begun_ = true;
    record_.ttft = seconds;
  } else {
    record_.gaps.push_back(seconds - last_);
  }
  last_ = seconds;
}

} // namespace troupe::load
