#include "services/history/history_json.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/history/activation_history.hpp"

namespace troupe {

namespace {

using nlohmann::json;

constexpr auto format = "troupe-history 1";

/// Megabytes of numbers: written as text at once, without a tree of them.
class json_writer {
 public:
  template <class Number>
  json_writer& number(Number value) {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text_.append(digits.data(), end);
    return *this;
  }

  json_writer& raw(std::string_view text) {
    text_ += text;
    return *this;
  }

  json_writer& string(const std::string& value) {
    return raw(json(value).dump(-1, ' ', false, json::error_handler_t::replace));
  }

  template <class Values, class One>
  json_writer& array(const Values& values, One one) {
    text_ += '[';
    bool is_first = true;
    for (const auto& value : values) {
      if (!std::exchange(is_first, false))
        text_ += ',';
      one(value);
    }
    text_ += ']';
    return *this;
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// 64-bit ids do not fit the numbers of JavaScript.
std::string hex(uint64_t value) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(value));
  return digits.data();
}

void put_window(json_writer& out, const history_window& window, const std::vector<uint32_t>& layer_experts) {
  const auto decoded = decode_window(window.encoded, layer_experts);
  out.raw(R"({"worker":")").raw(hex(window.worker.value)).raw(R"(","sequence":)").number(window.sequence);
  out.raw(R"(,"at_ms":)").number(window.at_ms).raw(R"(,"duration_ms":)").number(decoded.duration_ms);
  out.raw(R"(,"tokens":)").number(decoded.counts.tokens).raw(R"(,"micro_batches":)");
  out.number(decoded.counts.micro_batches).raw(R"(,"rows":)");
  out.array(decoded.counts.rows, [&](const auto& layer) {
    out.raw("[");
    bool is_first = true;
    for (size_t expert = 0; expert < layer.size(); ++expert)
      if (layer[expert] > 0)
        out.raw(std::exchange(is_first, false) ? "" : ",").number(expert).raw(",").number(layer[expert]);
    out.raw("]");
  });
  out.raw("}");
}

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw std::runtime_error("'" + where + "' " + what);
}

const json& member(const json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end())
    fail(where + name, "is missing");
  return *found;
}

uint64_t number(const json& value, const std::string& where,
                uint64_t bound = std::numeric_limits<int64_t>::max()) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > bound)
    fail(where, "is no whole number from 0 to " + std::to_string(bound));
  return value.get<uint64_t>();
}

const std::string& text(const json& value, const std::string& where) {
  if (!value.is_string())
    fail(where, "is no text");
  return value.get_ref<const std::string&>();
}

/// @param length  of the array; empty: any
const json& array(const json& value, const std::string& where, std::optional<size_t> length = {}) {
  if (!value.is_array() || value.size() != length.value_or(value.size()))
    fail(where, length ? "is no array of " + std::to_string(*length) : "is no array");
  return value;
}

/// As `hex` writes it.
worker_id take_id(const json& value, const std::string& where) {
  const auto& digits = text(value, where);
  worker_id id;
  const auto* end = digits.data() + digits.size();
  if (const auto read = std::from_chars(digits.data(), end, id.value, 16);
      read.ec != std::errc{} || read.ptr != end)
    fail(where, "is no id in hexadecimal");
  return id;
}

history_window take_window(const json& value, const std::vector<uint32_t>& layer_experts,
                           const std::string& where) {
  if (!value.is_object())
    fail(where, "is no object");
  const auto of = [&](const char* name) -> const json& { return member(value, name, where + '.'); };
  history_window result;
  result.worker = take_id(of("worker"), where + ".worker");
  result.sequence = number(of("sequence"), where + ".sequence");
  result.at_ms = number(of("at_ms"), where + ".at_ms");
  activation_window window;
  window.duration_ms = number(of("duration_ms"), where + ".duration_ms", max_window_ms);
  window.counts.tokens = number(of("tokens"), where + ".tokens", max_window_number);
  if (value.contains("micro_batches")) // not in files of earlier versions
    window.counts.micro_batches = number(value["micro_batches"], where + ".micro_batches", max_window_number);
  const auto& layers = array(of("rows"), where + ".rows", layer_experts.size());
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const auto place = where + ".rows[" + std::to_string(layer) + ']';
    const auto& pairs = array(layers[layer], place);
    auto& rows = window.counts.rows.emplace_back(layer_experts[layer]);
    if (pairs.size() % 2 != 0)
      fail(place, "has an expert without its rows");
    for (size_t i = 0; i < pairs.size(); i += 2) {
      const auto expert = number(pairs[i], place);
      if (expert >= rows.size())
        fail(place, "names expert " + std::to_string(expert) + " of " + std::to_string(rows.size()));
      rows[expert] = number(pairs[i + 1], place, max_window_number);
    }
  }
  result.encoded = encode(window);
  return result;
}

history_snapshot take_history(const json& page) {
  if (!page.is_object())
    throw std::runtime_error("it is no JSON object");
  const auto of = [&](const char* name) -> const json& { return member(page, name, ""); };
  if (text(of("format"), "format") != format)
    fail("format", std::string{"is not '"} + format + "'");
  history_snapshot result;
  result.fingerprint = text(of("fingerprint"), "fingerprint");
  for (const auto& experts : array(of("layer_experts"), "layer_experts"))
    result.layer_experts.push_back(
        static_cast<uint32_t>(number(experts, "layer_experts", max_history_experts)));
  if (const auto flaw = shape_flaw_of(result.layer_experts); !flaw.empty())
    throw std::runtime_error(flaw);
  result.half_life_ms = number(of("half_life_ms"), "half_life_ms");
  result.age_ms = number(of("age_ms"), "age_ms");
  result.tokens = number(of("tokens"), "tokens");
  result.rows = number(of("rows"), "rows");
  const auto& decayed = array(of("decayed"), "decayed", result.layer_experts.size());
  for (size_t layer = 0; layer < decayed.size(); ++layer) {
    const auto where = "decayed[" + std::to_string(layer) + ']';
    auto& rows = result.decayed.emplace_back();
    for (const auto& of_expert : array(decayed[layer], where, result.layer_experts[layer])) {
      if (!of_expert.is_number())
        fail(where, "has something that is no number");
      rows.push_back(of_expert.get<double>());
    }
  }
  const auto& windows = array(of("windows"), "windows");
  for (size_t i = 0; i < windows.size(); ++i)
    result.windows.push_back(
        take_window(windows[i], result.layer_experts, "windows[" + std::to_string(i) + ']'));
  if (const auto flaw = flaw_of(result); !flaw.empty())
    throw std::runtime_error(flaw);
  return result;
}

} // namespace

std::string history_json(const history_snapshot& history) {
  json_writer out;
  const auto put_number = [&out](auto value) { out.number(value); };
  out.raw(R"({"format":")").raw(format).raw(R"(","fingerprint":)").string(history.fingerprint);
  out.raw(R"(,"layer_experts":)").array(history.layer_experts, put_number);
  out.raw(R"(,"half_life_ms":)").number(history.half_life_ms).raw(R"(,"age_ms":)").number(history.age_ms);
  out.raw(R"(,"tokens":)").number(history.tokens).raw(R"(,"rows":)").number(history.rows);
  out.raw(R"(,"decayed":)").array(history.decayed, [&](const auto& layer) { out.array(layer, put_number); });
  out.raw(R"(,"windows":)").array(history.windows, [&](const auto& window) {
    put_window(out, window, history.layer_experts);
  });
  return out.raw("}").take();
}

history_snapshot parse_history_json(const std::string& text) {
  json page;
  try {
    page = json::parse(text);
  } catch (const json::exception& error) {
    throw std::runtime_error(std::string{"it is no JSON: "} + error.what());
  }
  return take_history(page);
}

history_snapshot read_history_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in)
    throw std::runtime_error("--history: cannot read " + path);
  const auto size = static_cast<std::streamoff>(in.tellg());
  if (size < 0 || static_cast<uint64_t>(size) > max_history_file_bytes)
    throw std::runtime_error("--history: " + path + " is larger than "
                             + std::to_string(max_history_file_bytes >> 20) + " MiB, or no file");
  in.seekg(0);
  const std::string content(std::istreambuf_iterator<char>(in), {});
  try {
    return parse_history_json(content);
  } catch (const std::runtime_error& flaw) {
    throw std::runtime_error("--history: " + path + " is no activation history: " + flaw.what());
  }
}

} // namespace troupe
