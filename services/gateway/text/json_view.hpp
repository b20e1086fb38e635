// A value inside a JSON file, with errors that name file and path.
#pragma once

#include "services/gateway/text/text_error.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::text {

/// A value inside a JSON file together with its path.
class json_view {
 public:
  json_view(const nlohmann::json& value, std::string file, std::string path = "");

  /// @throws text_error "FILE: PATH: WHAT".
  [[noreturn]] void fail(std::string_view what) const;

  const nlohmann::json& value() const noexcept { return *value_; }

  const std::string& file() const noexcept { return file_; }

  const std::string& path() const noexcept { return path_; }

  /// Absent and null read the same, as in Hugging Face's files.
  bool has(std::string_view key) const;
  json_view at(std::string_view key) const; ///< member; fails when absent or null
  json_view item(std::size_t index) const;  ///< element of an array
  std::size_t array_size() const;           ///< fails unless an array
  void expect_object() const;               ///< fails unless an object
  const std::string& string() const;        ///< fails unless a string
  std::string string_or(std::string_view key, std::string_view otherwise) const;
  bool boolean() const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::int32_t token_id() const; ///< 0 … max_token_id
  double number() const;
  std::size_t count() const; ///< a non-negative integer below 2^31

  /// Beyond any vocabulary in use; keeps a hostile file from sizing tables.
  static constexpr std::int32_t max_token_id = (1 << 24) - 1;

 private:
  json_view child(const nlohmann::json& value, std::string_view step) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
  int depth_ = 0;
};

/// @throws text_error naming `file` and the byte where parsing stopped.
nlohmann::json parse_json(std::string_view text, const std::string& file);

} // namespace troupe::text
