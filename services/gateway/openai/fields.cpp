#include "services/gateway/openai/fields.hpp"

#include <cmath>
#include <cstdlib>
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
constexpr std::size_t max_comparisons = std::size_t{1} << 25;

/// What parsing `body` would take; strings are skipped, validity is the parser's business.
struct extent {
  int depth = 0;
  std::size_t comparisons = 0;
};

extent extent_of(std::string_view body) {
  extent result;
  std::size_t members[max_depth + 1] = {}; // of the objects that are open, by their depth
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
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

/// Builds what nlohmann's own parser builds, but that integers beyond 64 bits keep their digits. JSON text
/// has no bytes of its own, so a value of bytes is such an integer.
class exact_parser : public nlohmann::detail::json_sax_dom_parser<json> {
 public:
  using json_sax_dom_parser::json_sax_dom_parser;

  bool number_float(double value, const std::string& text) {
    if (text.find_first_not_of("-0123456789") != std::string::npos)
      return json_sax_dom_parser::number_float(value, text);
    json::binary_t digits{{text.begin(), text.end()}};
    return binary(digits);
  }
};

std::string digits_of(const json& wide) {
  const auto& bytes = wide.get_binary();
  return {bytes.begin(), bytes.end()};
}

/// `value` with its wide integers as strings that `dump_exactly` finds again. No text of a client's is like
/// them by chance.
constexpr std::string_view wide_mark = "\x01integer:";
constexpr std::string_view dumped_mark = "\"\\u0001integer:";

void mark_wide_integers(json& value) {
  if (value.is_binary())
    value = std::string(wide_mark) + digits_of(value);
  else if (value.is_structured())
    for (json& inner : value)
      mark_wide_integers(inner);
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
    exact_parser building{parsed};
    json::sax_parse(body, &building);
  } catch (const json::exception& e) {
    // The library's own prefix, "[json.exception.parse_error.101] ", says nothing to a client.
    std::string text = e.what();
    if (const std::size_t end = text.find("] "); end != std::string::npos)
      text.erase(0, end + 2);
    throw invalid_request("the body is not valid JSON: " + text);
  }
  if (!parsed.is_object())
    throw invalid_request(std::string("the body must be a JSON object, not ") + kind_of(parsed));
  return parsed;
}

std::string dump_exactly(json value) {
  mark_wide_integers(value);
  std::string text = value.dump();
  for (std::size_t at = 0; (at = text.find(dumped_mark, at)) != std::string::npos;) {
    const std::size_t digits = at + dumped_mark.size();
    const std::size_t end = text.find_first_not_of("-0123456789", digits);
    if (text[end] == '"' && end > digits) {
      text.erase(end, 1);
      text.erase(at, dumped_mark.size());
    } else { // a client's own text
      at = end;
    }
  }
  return text;
}

std::string shown(const json& value) {
  return value.is_binary() ? digits_of(value) : value.dump();
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

std::int64_t to_integer(const json& value, const std::string& name, std::int64_t least, std::int64_t most) {
  const auto out_of_range = [&] {
    return invalid_request("'" + name + "' must be between " + std::to_string(least) + " and "
                               + std::to_string(most) + ", got " + shown(value),
                           name, "invalid_value");
  };
  if (value.is_binary())
    throw out_of_range();
  std::int64_t result = 0;
  if (value.is_number_unsigned()) {
    const auto wide = value.get<std::uint64_t>();
    if (wide > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw out_of_range();
    result = static_cast<std::int64_t>(wide);
  } else if (value.is_number_integer()) {
    result = value.get<std::int64_t>();
  } else if (value.is_number_float()) {
    const auto real = value.get<double>();
    if (real != std::floor(real))
      throw wrong_type(name, "an integer", value);
    if (std::abs(real) > 0x1p53)
      throw out_of_range();
    result = static_cast<std::int64_t>(real);
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

std::optional<std::int64_t> fields::integer(const char* name, std::int64_t least, std::int64_t most) const {
  const json* value = find(name);
  if (value == nullptr)
    return std::nullopt;
  return to_integer(*value, name_of(name), least, most);
}

std::optional<double> fields::number(const char* name, double least, double most) const {
  const json* value = find(name);
  if (value == nullptr)
    return std::nullopt;
  if (!value->is_number() && !value->is_binary())
    throw wrong_type(name_of(name), "a number", *value);
  const auto result =
      value->is_binary() ? std::strtod(digits_of(*value).c_str(), nullptr) : value->get<double>();
  if (!(result >= least && result <= most))
    throw invalid_request("'" + name_of(name) + "' must be "
                              + (most < std::numeric_limits<float>::max()
                                     ? "between " + plain(least) + " and " + plain(most)
                                     : "at least " + plain(least))
                              + ", got " + shown(*value),
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
