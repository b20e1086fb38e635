#include "services/gateway/openai/fields.hpp"

#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"

namespace troupe::openai {

namespace {

/// Rendering values is recursive, so nesting is bounded. Far above what requests need: tools with JSON
/// schemas reach some 20 levels.
constexpr int max_depth = 64;

/// The parser looks for each member among those before it: about a tenth of a second of that.
constexpr size_t max_comparisons = size_t{1} << 25;

/// What parsing `body` would take; strings are skipped, validity is the parser's business.
struct extent {
  int depth = 0;
  size_t comparisons = 0;
};

extent extent_of(std::string_view body) {
  extent result;
  size_t members[max_depth + 1] = {}; // of the objects that are open, by their depth
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      result.depth = std::max(result.depth, ++depth);
      if (depth > 0 && depth <= max_depth)
        members[depth] = 0;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth > 0 && depth <= max_depth) {
      result.comparisons += members[depth]++;
    }
  }
  return result;
}

api_error wrong_type(const std::string& name, const char* wanted, const json& got) {
  return invalid_request("'" + name + "' must be " + wanted + ", not " + kind_of(got), name, "invalid_type");
}

std::string plain(double value) {
  std::ostringstream out;
  out.precision(std::numeric_limits<float>::max_digits10);
  out << value;
  return out.str();
}

} // namespace

json parse_body(std::string_view body) {
  const extent size = extent_of(body);
  if (size.depth > max_depth)
    throw invalid_request("the JSON body nests deeper than " + std::to_string(max_depth) + " levels");
  if (size.comparisons > max_comparisons)
    throw invalid_request("the JSON body holds objects with too many members");
  json parsed;
  try {
    parsed = json::parse(body);
  } catch (const json::exception& e) {
    // The library's own prefix, "[json.exception.parse_error.101] ", says nothing to a client.
    std::string text = e.what();
    if (const size_t end = text.find("] "); end != std::string::npos)
      text.erase(0, end + 2);
    throw invalid_request("the body is not valid JSON: " + text);
  }
  if (!parsed.is_object())
    throw invalid_request(std::string("the body must be a JSON object, not ") + kind_of(parsed));
  return parsed;
}

const char* kind_of(const json& value) {
  switch (value.type()) {
  case json::value_t::null:
    return "null";
  case json::value_t::object:
    return "an object";
  case json::value_t::array:
    return "an array";
  case json::value_t::string:
    return "a string";
  case json::value_t::boolean:
    return "a boolean";
  case json::value_t::number_float:
    return "a number";
  default:
    return "an integer";
  }
}

int64_t to_integer(const json& value, const std::string& name, int64_t least, int64_t most) {
  const auto out_of_range = [&] {
    return invalid_request("'" + name + "' must be between " + std::to_string(least) + " and "
                               + std::to_string(most) + ", got " + value.dump(),
                           name, "invalid_value");
  };
  int64_t result = 0;
  if (value.is_number_unsigned()) {
    const auto wide = value.get<uint64_t>();
    if (wide > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      throw out_of_range();
    result = static_cast<int64_t>(wide);
  } else if (value.is_number_integer()) {
    result = value.get<int64_t>();
  } else if (value.is_number_float()) {
    const auto real = value.get<double>();
    if (real != std::floor(real))
      throw wrong_type(name, "an integer", value);
    if (std::abs(real) > 0x1p53)
      throw out_of_range();
    result = static_cast<int64_t>(real);
  } else {
    throw wrong_type(name, "an integer", value);
  }
  if (result < least || result > most)
    throw out_of_range();
  return result;
}

fields::fields(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

fields fields::parse(std::string_view body) {
  auto parsed = std::make_shared<const json>(parse_body(body));
  fields result{*parsed};
  result.own_ = std::move(parsed);
  return result;
}

const json* fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string fields::name_of(const char* name) const {
  return path_ + name;
}

std::optional<bool> fields::boolean(const char* name) const {
  const json* value = find(name);
  if (value == nullptr)
    return std::nullopt;
  if (!value->is_boolean())
    throw wrong_type(name_of(name), "a boolean", *value);
  return value->get<bool>();
}

std::optional<int64_t> fields::integer(const char* name, int64_t least, int64_t most) const {
  const json* value = find(name);
  if (value == nullptr)
    return std::nullopt;
  return to_integer(*value, name_of(name), least, most);
}

std::optional<double> fields::number(const char* name, double least, double most) const {
  const json* value = find(name);
  if (value == nullptr)
    return std::nullopt;
  if (!value->is_number())
    throw wrong_type(name_of(name), "a number", *value);
  const auto result = value->get<double>();
  if (!(result >= least && result <= most))
    throw invalid_request("'" + name_of(name) + "' must be between " + plain(least) + " and " + plain(most)
                              + ", got " + value->dump(),
                          name_of(name), "invalid_value");
  return result;
}

std::optional<std::string> fields::string(const char* name) const {
  const json* value = find(name);
  if (value == nullptr)
    return std::nullopt;
  if (!value->is_string())
    throw wrong_type(name_of(name), "a string", *value);
  return value->get<std::string>();
}

const json* fields::array(const char* name) const {
  const json* value = find(name);
  if (value != nullptr && !value->is_array())
    throw wrong_type(name_of(name), "an array", *value);
  return value;
}

const json* fields::object(const char* name) const {
  const json* value = find(name);
  if (value != nullptr && !value->is_object())
    throw wrong_type(name_of(name), "an object", *value);
  return value;
}

} // namespace troupe::openai
