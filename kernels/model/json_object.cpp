#include "kernels/model/json_object.hpp"

#include "kernels/model/error.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace troupe::model {

namespace {

// Far more than any published config needs, far less than what exhausts a stack.
constexpr int max_depth = 32;

nlohmann::json parse_strictly(std::string_view text, const std::string& name) {
  // One set of keys per open object: nlohmann keeps the last of repeated keys, but the choice must not depend
  // on the parser.
  std::vector<std::set<std::string>> open;
  auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using event_t = nlohmann::json::parse_event_t;
    if (depth > max_depth)
      throw model_error(name + ": nested deeper than " + std::to_string(max_depth));
    if (event == event_t::object_start)
      open.emplace_back();
    else if (event == event_t::object_end)
      open.pop_back();
    else if (event == event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      throw model_error(name + ": key '" + parsed.get<std::string>() + "' is given twice");
    return true;
  };
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::exception& e) {
    // The parser quotes the faulty text, which may be long.
    throw model_error(name + ": not valid JSON: " + std::string{e.what()}.substr(0, 200));
  }
}

template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, bool>)
    return "true or false";
  else if constexpr (std::is_same_v<T, double>)
    return "a number";
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return "an integer";
  else if constexpr (std::is_same_v<T, std::string>)
    return "a string";
  else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
    return "a list of integers";
  else if constexpr (std::is_same_v<T, std::vector<double>>)
    return "a list of numbers";
  else
    return "a list of strings";
}

bool convert(const nlohmann::json& from, bool& to) {
  if (from.is_number() && (from == 0 || from == 1)) {
    to = from == 1;
    return true;
  }
  if (!from.is_boolean())
    return false;
  to = from.get<bool>();
  return true;
}

bool convert(const nlohmann::json& from, double& to) {
  if (!from.is_number())
    return false;
  to = from.get<double>();
  return true;
}

bool convert(const nlohmann::json& from, std::int64_t& to) {
  // Below 2⁶³, the first float that is too large.
  if (from.is_number_float()) {
    const auto value = from.get<double>();
    if (std::trunc(value) != value || std::fabs(value) >= 0x1p63)
      return false;
    to = static_cast<std::int64_t>(value);
    return true;
  }
  if (!from.is_number_integer())
    return false;
  if (from.is_number_unsigned()
      && from.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return false;
  to = from.get<std::int64_t>();
  return true;
}

bool convert(const nlohmann::json& from, std::string& to) {
  if (!from.is_string())
    return false;
  to = from.get<std::string>();
  return true;
}

template <class T>
bool convert(const nlohmann::json& from, std::vector<T>& to) {
  if (!from.is_array())
    return false;
  to.resize(from.size());
  for (std::size_t i = 0; i < to.size(); ++i)
    if (!convert(from[i], to[i]))
      return false;
  return true;
}

bool is_false(const nlohmann::json& value) {
  return value.is_boolean() && !value.get<bool>();
}

bool says_nothing(const nlohmann::json& value) {
  return value.is_null() || is_false(value) || (value.is_number() && value == 0)
         || (value.is_string() && value.get_ref<const std::string&>().empty())
         || ((value.is_array() || value.is_object()) && value.empty());
}

} // namespace

struct json_object::state {
  std::string name;
  nlohmann::json json;
  std::set<std::string> read;

  /// Null if the field is absent or null, or false unless that is a value.
  const nlohmann::json* find(const std::string& key, bool false_is_a_value = false) {
    read.insert(key);
    const auto i = json.find(key);
    return i == json.end() || i->is_null() || (is_false(*i) && !false_is_a_value) ? nullptr : &*i;
  }
};

json_object::json_object(std::unique_ptr<state> s) : state_(std::move(s)) {}

json_object::json_object(json_object&&) noexcept = default;
json_object::~json_object() = default;

json_object json_object::parse(std::string_view text, const std::string& name, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    throw model_error(name + ": " + std::to_string(text.size()) + " bytes, more than the "
                      + std::to_string(max_bytes) + " allowed");
  auto json = parse_strictly(text, name);
  if (!json.is_object())
    throw model_error(name + ": expected a JSON object, found " + json.type_name());
  return json_object(std::make_unique<state>(state{name, std::move(json), {}}));
}

bool json_object::has(const std::string& key) const {
  return state_->find(key) != nullptr;
}

bool json_object::is_given(const std::string& key) const {
  return state_->json.contains(key);
}

template <class T>
std::optional<T> json_object::find(const std::string& key) const {
  const auto* found = state_->find(key, std::is_same_v<T, bool>);
  if (found == nullptr)
    return std::nullopt;
  T result{};
  if (!convert(*found, result))
    fail(key, std::string{"must be "} + type_name<T>() + ", found " + found->type_name());
  return result;
}

template <class T>
T json_object::at(const std::string& key) const {
  auto found = find<T>(key);
  if (!found)
    fail(key, "is missing");
  return *std::move(found);
}

template std::optional<bool> json_object::find(const std::string&) const;
template std::optional<double> json_object::find(const std::string&) const;
template std::optional<std::int64_t> json_object::find(const std::string&) const;
template std::optional<std::string> json_object::find(const std::string&) const;
template std::optional<std::vector<std::int64_t>> json_object::find(const std::string&) const;
template std::optional<std::vector<double>> json_object::find(const std::string&) const;
template std::optional<std::vector<std::string>> json_object::find(const std::string&) const;
template bool json_object::at(const std::string&) const;
template double json_object::at(const std::string&) const;
template std::int64_t json_object::at(const std::string&) const;
template std::string json_object::at(const std::string&) const;
template std::vector<std::int64_t> json_object::at(const std::string&) const;
template std::vector<double> json_object::at(const std::string&) const;
template std::vector<std::string> json_object::at(const std::string&) const;

std::vector<std::int64_t> json_object::one_or_many(const std::string& key) const {
  const auto* found = state_->find(key);
  if (found == nullptr)
    return {};
  if (found->is_array())
    return at<std::vector<std::int64_t>>(key);
  return {at<std::int64_t>(key)};
}

std::optional<json_object> json_object::object(const std::string& key) const {
  const auto* found = state_->find(key);
  if (found == nullptr || (found->is_array() && found->empty()))
    return std::nullopt;
  if (!found->is_object())
    fail(key, std::string{"must be an object, found "} + found->type_name());
  return json_object(std::make_unique<state>(state{state_->name + ": " + key, *found, {}}));
}

void json_object::ignore(const std::string& key) const {
  state_->read.insert(key);
}

bool json_object::says_something(const std::string& key) const {
  const auto i = state_->json.find(key);
  return i != state_->json.end() && !says_nothing(*i);
}

bool json_object::is_object(const std::string& key) const {
  const auto i = state_->json.find(key);
  return i != state_->json.end() && i->is_object();
}

std::string json_object::text(const std::string& key) const {
  const auto i = state_->json.find(key);
  if (i == state_->json.end())
    return "null";
  return i->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 64);
}

std::vector<std::string> json_object::unread() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : state_->json.items())
    if (!says_nothing(value) && !state_->read.contains(key))
      result.push_back(key);
  return result;
}

std::vector<std::string> json_object::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : state_->json.items())
    result.push_back(key);
  return result;
}

std::string json_object::canonical() const {
  // Text that is not UTF-8 cannot be dumped strictly; the parser refuses it, so nothing is replaced here.
  return state_->json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const std::string& json_object::name() const noexcept {
  return state_->name;
}

void json_object::fail(const std::string& key, const std::string& what) const {
  throw model_error(state_->name + ": field '" + key + "' " + what);
}

} // namespace troupe::model
