// A JSON object that is read field by field, with errors that name file and field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::model {

/// It records which fields were read, so that a reader can list the others.
///
/// Supported field types T: bool, double, std::int64_t, std::string, std::vector<std::int64_t>,
/// std::vector<double>, std::vector<std::string>. As in Python programs, an integer may be written as 20.0
/// and a boolean as 0 or 1, and `false` in place of a number, string, list or object means none.
class json_object {
 public:
  /// @param name  name of the document in messages
  /// @throws model_error  longer than `max_bytes`, not JSON, nested deeper than 32, a repeated key, or no
  /// object
  static json_object parse(std::string_view text, const std::string& name, std::size_t max_bytes);

  json_object(json_object&&) noexcept;
  ~json_object();

  /// Whether the field exists and is neither null nor false.
  bool has(const std::string& key) const;

  /// Whether the field exists, null included.
  bool is_given(const std::string& key) const;

  /// @returns the field, or empty if it is absent or null (or false, unless T is bool)
  /// @throws model_error  it has another type
  template <class T>
  std::optional<T> find(const std::string& key) const;

  /// @throws model_error  `find` returns nothing, or the field has another type
  template <class T>
  T at(const std::string& key) const;

  template <class T>
  T value(const std::string& key, T fallback) const {
    auto found = find<T>(key);
    return found ? *std::move(found) : fallback;
  }

  /// A list of integers that may also be written as one integer; empty if `find` returns nothing.
  std::vector<std::int64_t> one_or_many(const std::string& key) const;

  /// @returns the nested object (named "outer: key" in messages), or empty if it is absent, null, false or an
  /// empty list
  std::optional<json_object> object(const std::string& key) const;

  /// Marks a field as understood without reading it.
  void ignore(const std::string& key) const;

  /// Whether the field exists and is neither null, false, 0 nor empty.
  bool says_something(const std::string& key) const;

  /// Whether the field is an object.
  bool is_object(const std::string& key) const;

  /// The field as written, at most 64 bytes, for messages; "null" if absent.
  std::string text(const std::string& key) const;

  /// Fields that were not read and have a non-empty value.
  std::vector<std::string> unread() const;

  /// The keys, sorted.
  std::vector<std::string> keys() const;

  /// The whole object with sorted keys and no blanks.
  std::string canonical() const;

  const std::string& name() const noexcept;

  /// Throws a model_error about one field: "NAME: field 'KEY' WHAT".
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

 private:
  struct state;
  explicit json_object(std::unique_ptr<state> s);

  std::unique_ptr<state> state_;
};

} // namespace troupe::model
