#include "load/history_page.hpp"

#include <stdexcept>

#include <nlohmann/json.hpp>

namespace troupe::load {

namespace {

using nlohmann::json;

constexpr auto history_format = "troupe-history 1";
constexpr uint64_t max_experts = uint64_t{1} << 20; ///< of all layers together

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw std::runtime_error("/cluster/history: '" + where + "' " + what);
}

const json& member(const json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end()) {
    fail(where + name, "is missing");
  }
  return *found;
}

uint64_t number(const json& value, const std::string& where) {
  if (!value.is_number_unsigned()) {
    fail(where, "is no whole number");
  }
  return value.get<uint64_t>();
}

std::string text_of(const json& value, const std::string& where) {
  if (!value.is_string()) {
    fail(where, "is no text");
  }
  return value.get<std::string>();
}

const json& array(const json& value, const std::string& where) {
  if (!value.is_array()) {
    fail(where, "is no array");
  }
  return value;
}

history_window take_window(const json& value, const std::vector<uint32_t>& layer_experts,
                           const std::string& where) {
  if (!value.is_object()) {
    fail(where, "is no object");
  }
  const auto number_of = [&](const char* name) {
    return number(member(value, name, where + '.'), where + '.' + name);
  };
  history_window result;
  result.worker = text_of(member(value, "worker", where + '.'), where + ".worker");
  result.sequence = number_of("sequence");
  result.at_ms = number_of("at_ms");
  result.duration_ms = number_of("duration_ms");
  result.tokens = number_of("tokens");
  result.micro_batches = value.contains("micro_batches") ? number_of("micro_batches") : 0;
  const auto& layers = array(member(value, "rows", where + '.'), where + ".rows");
  if (layers.size() != layer_experts.size()) {
    fail(where + ".rows", "has another number of layers than the model");
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const auto place = where + ".rows[" + std::to_string(layer) + ']';
    const auto& pairs = array(layers[layer], place);
    if (pairs.size() % 2 != 0) {
      fail(place, "has an expert without its rows");
    }
    auto& rows = result.rows.emplace_back();
    for (size_t i = 0; i < pairs.size(); i += 2) {
      const auto expert = number(pairs[i], place);
      if (expert >= layer_experts[layer]) {
        fail(place, "names expert " + std::to_string(expert) + " of " + std::to_string(layer_experts[layer]));
      }
      rows.emplace_back(static_cast<uint32_t>(expert), number(pairs[i + 1], place));
    }
  }
  return result;
}

} // namespace

history_page parse_history_page(const std::string& text) {
  const auto page = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!page.is_object()) {
    throw std::runtime_error("/cluster/history is no JSON object");
  }
  if (text_of(member(page, "format", ""), "format") != history_format) {
    fail("format", std::string("is not '") + history_format + "'");
  }
  history_page result;
  result.fingerprint = text_of(member(page, "fingerprint", ""), "fingerprint");
  uint64_t experts = 0;
  for (const auto& entry : array(member(page, "layer_experts", ""), "layer_experts")) {
    const auto count = number(entry, "layer_experts");
    if (count > max_experts || (experts += count) > max_experts) {
      fail("layer_experts", "has more than " + std::to_string(max_experts) + " experts");
    }
    result.layer_experts.push_back(static_cast<uint32_t>(count));
  }
  result.tokens = number(member(page, "tokens", ""), "tokens");
  const auto& windows = array(member(page, "windows", ""), "windows");
  for (size_t i = 0; i < windows.size(); ++i) {
    result.windows.push_back(
        take_window(windows[i], result.layer_experts, "windows[" + std::to_string(i) + ']'));
  }
  return result;
}

} // namespace troupe::load
