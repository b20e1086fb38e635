#include "load/stream_reader.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace troupe::load {

namespace {

/// Whether a choice says how it ended and nothing else. Empty text alone does not mean that: a token may
/// stand behind it whose text is held back.
bool only_ends(const nlohmann::json& choice) {
  if (!choice.contains("finish_reason") || choice["finish_reason"].is_null()) {
    return false;
  }
  auto text = choice.find("text");
  return text == choice.end() || !text->is_string() || text->get_ref<const std::string&>().empty();
}

} // namespace

void stream_reader::take(const std::string& data, double seconds) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const auto chunk = nlohmann::json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (chunk.contains("error")) {
    record_.error = chunk["error"].value("message", data);
  } else if (chunk.contains("usage") && chunk["usage"].is_object()) {
    record_.input_tokens = chunk["usage"].value("prompt_tokens", 0U);
    record_.output_tokens = chunk["usage"].value("completion_tokens", 0U);
  }
  if (record_.model.empty() && chunk.is_object() && chunk.contains("model") && chunk["model"].is_string()) {
    record_.model = chunk["model"].get<std::string>();
  }
  if (!chunk.contains("choices") || chunk["choices"].empty()) {
    return;
  }
  const auto& choices = chunk["choices"];
  if (!begun_) {
    // Whatever it is: an answer without text has its first token, too.
    begun_ = true;
    record_.ttft = seconds;
  } else if (std::all_of(choices.begin(), choices.end(), only_ends)) {
    return;
  } else {
    record_.gaps.push_back(seconds - last_);
  }
  last_ = seconds;
}

} // namespace troupe::load
