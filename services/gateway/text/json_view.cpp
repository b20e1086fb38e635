#include "services/gateway/text/json_view.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>

namespace troupe::text {

json_view::json_view(const nlohmann::json& value, std::string file, std::string path)
    : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

void json_view::fail(std::string_view what) const {
  throw text_error(file_ + ": " + (path_.empty() ? std::string("/") : path_) + ": " + std::string(what));
}

json_view json_view::child(const nlohmann::json& value, std::string_view step) const {
  constexpr int deepest = 64; // bounds the stack of recursive readers
  json_view out(value, file_, path_ + "/" + std::string(step));
  out.depth_ = depth_ + 1;
  if (out.depth_ > deepest)
    out.fail("nested too deeply");
  return out;
}

bool json_view::has(std::string_view key) const {
  expect_object();
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

json_view json_view::at(std::string_view key) const {
  if (!has(key))
    fail("member '" + std::string(key) + "' is missing");
  return child(*value_->find(key), key);
}

json_view json_view::item(std::size_t index) const {
  if (index >= array_size())
    fail("element " + std::to_string(index) + " is missing");
  return child((*value_)[index], std::to_string(index));
}

std::size_t json_view::array_size() const {
  if (!value_->is_array())
    fail("an array is expected");
  return value_->size();
}

void json_view::expect_object() const {
  if (!value_->is_object())
    fail("an object is expected");
}

const std::string& json_view::string() const {
  if (!value_->is_string())
    fail("a string is expected");
  return value_->get_ref<const std::string&>();
}

std::string json_view::string_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? at(key).string() : std::string(otherwise);
}

bool json_view::boolean() const {
  if (!value_->is_boolean())
    fail("true or false is expected");
  return value_->get<bool>();
}

bool json_view::boolean_or(std::string_view key, bool otherwise) const {
  return has(key) ? at(key).boolean() : otherwise;
}

std::int32_t json_view::token_id() const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > max_token_id)
    fail("a token id from 0 to " + std::to_string(max_token_id) + " is expected");
  return value_->get<std::int32_t>();
}

double json_view::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>()))
    fail("a number is expected");
  return value_->get<double>();
}

std::size_t json_view::count() const {
  constexpr std::uint64_t limit = 1ULL << 31U;
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() >= limit)
    fail("a non-negative integer is expected");
  return value_->get<std::size_t>();
}

nlohmann::json parse_json(std::string_view text, const std::string& file) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    // Removes the library's prefix "[json.exception.parse_error.101] ".
    const std::string what = e.what();
    const auto end = what.find("] ");
    throw text_error(file + ": not valid JSON: " + (end == std::string::npos ? what : what.substr(end + 2)));
  }
}

} // namespace troupe::text
