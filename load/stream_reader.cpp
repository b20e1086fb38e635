#include "load/stream_reader.hpp"

#include <nlohmann/json.hpp>

namespace troupe::load {

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
  // Every chunk with a choice is a token, as `vllm bench serve` counts them: text may be held back, and that
  // of an end token is empty.
  if (!begun_) {
    begun_ = true;
    record_.ttft = seconds;
  } else {
    record_.gaps.push_back(seconds - last_);
  }
  last_ = seconds;
}

} // namespace troupe::load
