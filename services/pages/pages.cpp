// The JSON of the pages but the history, by the fields that their structs name.
#include <stdexcept>
#include <string_view>

#include <nlohmann/json.hpp>

#include "services/client/terminal_text.hpp"
#include "services/pages/cluster_page.hpp"
#include "services/pages/model_page.hpp"
#include "services/pages/page_fields.hpp"
#include "services/pages/placement_page.hpp"

namespace troupe::pages {

namespace {

using json = nlohmann::ordered_json;

template <class T>
void write_field(json& out, const std::string& name, const T& value) {
  out[name] = value;
}

template <class T>
void write_field(json& out, const std::string& name, const std::optional<T>& value) {
  if (value)
    out[name] = *value;
}

template <class T>
void write_field(json& out, const std::string& name, const nullable<T>& value) {
  out[name] = value ? json(*value) : json();
}

template <class T>
void read_field(const json& in, const std::string& name, T& value) {
  if (const auto found = in.find(name); found != in.end())
    found->get_to(value);
}

template <class T>
void read_field(const json& in, const std::string& name, std::optional<T>& value) {
  if (const auto found = in.find(name); found != in.end() && !found->is_null())
    value = found->template get<T>();
}

template <class T>
void read_field(const json& in, const std::string& name, nullable<T>& value) {
  read_field(in, name, static_cast<std::optional<T>&>(value));
}

} // namespace

// nlohmann's library finds these by the namespace of the parts.
template <page_part T>
void to_json(json& out, const T& part) {
  out = json::object();
  for_each_field(part, [&out](const std::string& name, const auto& value) { write_field(out, name, value); });
}

template <page_part T>
void from_json(const json& in, T& part) {
  in.get_ref<const json::object_t&>(); // throws if it is none
  for_each_field(part, [&in](const std::string& name, auto& value) { read_field(in, name, value); });
}

template <page_part T>
std::string encode(const T& page) {
  return json(page).dump(-1, ' ', false, json::error_handler_t::replace);
}

template <page_part T>
T decode(const std::string& text, const std::string& complaint, std::size_t shown) {
  try {
    const auto page = json::parse(text);
    const std::string_view names = T::names;
    page.at(std::string(names.substr(0, names.find(','))));
    return page.get<T>();
  } catch (const json::exception&) { // no JSON, or of another shape
    throw std::runtime_error(complaint + ": " + excerpt(text, shown));
  }
}

template std::string encode(const cluster_page&);
template std::string encode(const model_page&);
template std::string encode(const placement_page&);
template std::string encode(const change_page&);
template cluster_page decode(const std::string&, const std::string&, std::size_t);
template model_page decode(const std::string&, const std::string&, std::size_t);
template placement_page decode(const std::string&, const std::string&, std::size_t);
template change_page decode(const std::string&, const std::string&, std::size_t);

} // namespace troupe::pages
