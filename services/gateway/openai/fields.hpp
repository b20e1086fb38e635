// Typed, range-checked access to the fields of one JSON object; every mismatch names the field.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace troupe::openai {

/// Objects keep the order of their members: chat templates write tools and the arguments of calls into the
/// prompt as the client sent them.
using json = nlohmann::ordered_json;

/// Parses a request body. Integers beyond 64 bits become values of bytes, their digits, so that templates get
/// them as they came; `integer` and `number` take them for what they are, out of range.
/// @throws api_error 400 when it is not a JSON object in UTF-8, nested deeper than 64 levels, or has objects
/// with too many members to look them up quickly (8,000 in one object are allowed)
json parse_body(std::string_view body);

/// A view of an object's fields. An absent field and `null` are the same. All members throw api_error 400
/// naming the field when its type or value is wrong.
class fields {
 public:
  /// @param path  what stands before a field's name in errors, with its dot: "stream_options."
  explicit fields(const json& object, std::string path = {});

  /// Parses a request body, and keeps what it has parsed.
  /// @throws api_error as parse_body
  static fields parse(std::string_view body);

  /// The value, or nullptr when absent or null.
  const json* find(const char* name) const;
  /// The field's name as errors write it.
  std::string name_of(const char* name) const;

  std::optional<bool> boolean(const char* name) const;
  /// Integers, and numbers without a fraction; both ends included.
  std::optional<std::int64_t> integer(const char* name, std::int64_t least, std::int64_t most) const;
  /// Both ends included.
  std::optional<double> number(const char* name, double least, double most) const;
  std::optional<std::string> string(const char* name) const;
  const json* array(const char* name) const;
  const json* object(const char* name) const;

 private:
  std::shared_ptr<const json> own_; ///< null: the caller keeps the object
  const json& object_;
  std::string path_;
};

/// The JSON text of a value, integers beyond 64 bits with all their digits.
std::string dump_exactly(json value);

/// A value for messages.
std::string shown(const json& value);

/// "an integer", "a string", … for messages.
const char* kind_of(const json& value);

/// `value` as an integer in range.
/// @throws api_error 400 naming `name`
std::int64_t to_integer(const json& value, const std::string& name, std::int64_t least, std::int64_t most);

} // namespace troupe::openai
