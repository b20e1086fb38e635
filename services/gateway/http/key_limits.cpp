#include "services/gateway/http/key_limits.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "actors/protocol/admission_messages.hpp"

namespace troupe::http {

namespace {

constexpr std::uint64_t most_per_minute = std::uint64_t{1} << 50U;

/// @throws std::runtime_error
template <class Number>
Number whole_number(const nlohmann::json& value, const std::string& where, std::uint64_t most,
                    const char* otherwise = "") {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 || value.get<std::uint64_t>() > most)
    throw std::runtime_error(where + " must be a whole number from 1 to " + std::to_string(most) + otherwise);
  return value.get<Number>();
}

/// @throws std::runtime_error
template <class Number>
std::optional<Number> bound(const nlohmann::json& value, const std::string& where, std::uint64_t most) {
  if (value.is_null())
    return std::nullopt;
  return whole_number<Number>(value, where, most, ", or null for no limit");
}

/// @param where  begins the text of errors
/// @param limit  values of missing members
key_limit parse_limit(const nlohmann::json& entry, const std::string& where, key_limit limit) {
  if (!entry.is_object())
    throw std::runtime_error(where + " must be an object");
  for (const auto& [name, value] : entry.items()) {
    const std::string member = where + "." + name;
    if (name == "requests_per_minute")
      limit.requests_per_minute = bound<std::uint64_t>(value, member, most_per_minute);
    else if (name == "tokens_per_minute")
      limit.tokens_per_minute = bound<std::uint64_t>(value, member, most_per_minute);
    else if (name == "concurrent_requests")
      limit.concurrent_requests =
          bound<std::uint32_t>(value, member, std::numeric_limits<std::uint32_t>::max());
    else if (name == "weight")
      limit.weight = whole_number<std::uint32_t>(value, member, max_tenant_weight);
    else if (name == "priority" && value.is_boolean())
      limit.priority = value.get<bool>();
    else if (name == "priority")
      throw std::runtime_error(member + " must be true or false");
    else
      throw std::runtime_error(member
                               + " is unknown; there are requests_per_minute, tokens_per_minute, "
                                 "concurrent_requests, weight and priority");
  }
  return limit;
}

} // namespace

const key_limit& key_limit_table::of(const std::string& name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? otherwise : found->second;
}

key_limit_table parse_key_limits(const std::string& text, const std::string& source,
                                 const std::vector<std::string>& names) {
  const nlohmann::json all = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object())
    throw std::runtime_error(source + ": holds no JSON object");
  key_limit_table result;
  for (const auto& [name, value] : all.items())
    if (name != "default" && name != "keys")
      throw std::runtime_error(source + ": '" + name + "' is unknown; there are 'default' and 'keys'");
  if (all.contains("default"))
    result.otherwise = parse_limit(all["default"], source + ": default", {});
  if (!all.contains("keys"))
    return result;
  if (!all["keys"].is_object())
    throw std::runtime_error(source + ": 'keys' must be an object");
  for (const auto& [name, value] : all["keys"].items()) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw std::runtime_error(source + ": no key of --api-key-file has the name '" + name + "'");
    result.by_name[name] = parse_limit(value, source + ": keys." + name, result.otherwise);
  }
  return result;
}

key_limit_table read_key_limits(const std::filesystem::path& file, const std::vector<std::string>& names) {
  constexpr std::size_t most_bytes = 16 << 20;
  const std::string source = "--key-limits " + file.string();
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  std::ifstream in{file, std::ios::binary};
  if (error || !in)
    throw std::runtime_error(source + ": cannot be read");
  if (size > most_bytes)
    throw std::runtime_error(source + ": has more than 16 MiB");
  return parse_key_limits(std::string(std::istreambuf_iterator<char>(in), {}), source, names);
}

} // namespace troupe::http
