#include "services/metrics/catalogue.hpp"

#include <array>
#include <stdexcept>
#include <unordered_map>

#include "services/metrics/catalogue_entries.hpp"

namespace troupe::metrics {

namespace {

struct whole_catalogue {
  std::vector<family_spec> gateway = gateway_entries();
  std::vector<family_spec> scheduler = scheduler_entries();
  std::vector<family_spec> attention = attention_entries();
  std::vector<family_spec> expert = expert_entries();
  std::vector<family_spec> common = common_entries();
  std::array<process_families, 5> processes{{{"gateway", "Gateway", gateway},
                                             {"scheduler", "Scheduler", scheduler},
                                             {"attention", "Attention worker", attention},
                                             {"expert", "Expert worker", expert},
                                             {"every", "Every process", common}}};
  std::unordered_map<std::string_view, const family_spec*> by_name;

  whole_catalogue() {
    for (const process_families& one : processes)
      for (const family_spec& spec : one.families)
        if (!by_name.emplace(spec.name, &spec).second)
          throw std::logic_error("metrics: two families are called " + std::string(spec.name));
  }
};

const whole_catalogue& whole() {
  static const whole_catalogue result;
  return result;
}

std::string labels_text(const family_spec& spec) {
  std::string text;
  for (const label_spec& label : spec.labels) {
    text += (text.empty() ? "`" : "; `") + std::string(label.name) + "`";
    std::string values;
    for (const char* value : label.values)
      values += (values.empty() ? "`" : ", `") + std::string(value) + "`";
    if (label.meaning[0] != '\0')
      values += (values.empty() ? "" : ", ") + std::string(label.meaning);
    if (!values.empty())
      text += ": " + values;
  }
  return text;
}

std::string row_of(const family_spec& spec) {
  std::string help = spec.help;
  if (spec.condition[0] != '\0')
    help += " (" + std::string(spec.condition) + ")";
  if (spec.vllm_name[0] != '\0')
    help += "; with the prefix `vllm:` also `" + std::string(spec.vllm_name) + "`";
  return "| `" + std::string(spec.name) + "` | " + name_of(spec.type) + " | " + labels_text(spec) + " | "
         + help + " |\n";
}

/// A JSON string. The catalogue's texts are constants without control characters.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + '"';
}

/// A JSON array, one name a line.
std::string label_names(const family_spec& spec) {
  if (spec.labels.empty())
    return "[]";
  std::string list;
  for (const label_spec& label : spec.labels)
    list += (list.empty() ? "\n    " : ",\n    ") + quoted(label.name);
  return "[" + list + "\n   ]";
}

} // namespace

const char* name_of(family_type type) {
  switch (type) {
  case family_type::counter:
    return "counter";
  case family_type::gauge:
    return "gauge";
  case family_type::histogram:
    break;
  }
  return "histogram";
}

std::span<const process_families> catalogue() {
  return whole().processes;
}

const family_spec& spec_of(std::string_view name) {
  const auto found = whole().by_name.find(name);
  if (found == whole().by_name.end())
    throw std::logic_error("metrics: services/metrics/catalogue_*.cpp has no family '" + std::string(name)
                           + "'");
  return *found->second;
}

std::string catalogue_tables() {
  std::string text;
  for (const process_families& one : catalogue()) {
    text += (text.empty() ? "## " : "\n## ") + std::string(one.title) + "\n\n";
    text += "| family | type | labels | what it says |\n|---|---|---|---|\n";
    for (const family_spec& spec : one.families)
      text += row_of(spec);
  }
  return text;
}

std::string catalogue_json() {
  // Written without a JSON library, which would take most of this source's compile time.
  std::string text = "{\n \"families\": [";
  const char* separator = "\n";
  for (const process_families& one : catalogue())
    for (const family_spec& spec : one.families) {
      text += separator;
      text += "  {\n   \"name\": " + quoted(spec.name);
      text += ",\n   \"type\": " + quoted(name_of(spec.type));
      text += ",\n   \"process\": " + quoted(one.process);
      text += ",\n   \"labels\": " + label_names(spec);
      text += ",\n   \"condition\": " + quoted(spec.condition);
      text += std::string(",\n   \"prefix\": ") + (spec.has_prefix ? "true" : "false");
      text += ",\n   \"vllm_name\": " + quoted(spec.vllm_name) + "\n  }";
      separator = ",\n";
    }
  return text + "\n ]\n}\n";
}

} // namespace troupe::metrics
