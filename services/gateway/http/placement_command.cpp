#include "services/gateway/http/placement_command.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/fields.hpp"

namespace troupe::http {

namespace {

using openai::fields;
using openai::invalid_request;
using openai::json;

struct action_form {
  placement_action action;
  std::vector<const char*> members; ///< all are required
};

const std::vector<action_form>& forms() {
  static const std::vector<action_form> all = {
      {placement_action::rebalance, {}},
      {placement_action::move, {"layer", "expert", "from", "to"}},
      {placement_action::replicate, {"layer", "expert", "replicas"}},
      {placement_action::pin, {"layer", "expert", "hosts"}},
      {placement_action::unpin, {"layer", "expert"}},
      {placement_action::drain, {"worker"}},
      {placement_action::undrain, {"worker"}},
      {placement_action::assign, {"experts"}},
      {placement_action::pause, {}},
      {placement_action::resume, {}},
  };
  return all;
}

/// "a, b and c".
std::string listed(const std::vector<std::string>& names) {
  std::string result;
  for (std::size_t i = 0; i < names.size(); ++i)
    result += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + ("'" + names[i] + "'");
  return result;
}

const action_form& form_of(const fields& body) {
  const auto asked = body.string("action");
  std::vector<std::string> names;
  for (const auto& form : forms()) {
    if (asked == to_string(form.action))
      return form;
    names.emplace_back(to_string(form.action));
  }
  throw invalid_request((asked ? "there is no action '" + *asked + "'" : std::string{"'action' is missing"})
                            + "; there are " + listed(names),
                        "action", asked ? "invalid_value" : "missing_required_parameter");
}

/// @param known  the members that `object` may have
/// @param whose  "action 'move' has", for messages
void refuse_others(const json& object, const std::vector<std::string>& known, const std::string& path,
                   const std::string& whose) {
  for (const auto& [name, value] : object.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw invalid_request("'" + path + name + "' is unknown; " + whose + " " + listed(known), path + name,
                            "unknown_parameter");
}

/// Members that must be there.
class required {
 public:
  required(const json& object, const std::string& path, std::string whose)
      : of_(object, path), whose_(std::move(whose)) {}

  std::uint32_t number(const char* name, std::uint32_t least = 0) const {
    return static_cast<std::uint32_t>(
        found(of_.integer(name, least, std::numeric_limits<std::uint32_t>::max()), name));
  }

  std::string text(const char* name) const {
    auto value = found(of_.string(name), name);
    if (value.empty())
      throw invalid_request("'" + of_.name_of(name) + "' must not be empty", of_.name_of(name),
                            "invalid_value");
    return value;
  }

  const json& array(const char* name) const {
    const auto* value = of_.array(name);
    if (value == nullptr)
      missing(name);
    return *value;
  }

  std::vector<std::string> texts(const char* name) const {
    std::vector<std::string> result;
    for (const auto& entry : array(name)) {
      if (!entry.is_string() || entry.get_ref<const std::string&>().empty())
        throw invalid_request("'" + of_.name_of(name) + "' must be an array of names", of_.name_of(name),
                              "invalid_type");
      result.push_back(entry.get<std::string>());
    }
    return result;
  }

  expert_id expert() const { return {number("layer"), number("expert")}; }

 private:
  template <class Value>
  Value found(std::optional<Value> value, const char* name) const {
    if (!value)
      missing(name);
    return *std::move(value);
  }

  [[noreturn]] void missing(const char* name) const {
    throw invalid_request("'" + of_.name_of(name) + "' is missing; " + whose_, of_.name_of(name),
                          "missing_required_parameter");
  }

  fields of_;
  std::string whose_;
};

std::vector<named_hosts> assigned(const json& experts) {
  if (experts.size() > max_assigned_experts)
    throw invalid_request("'experts' has " + std::to_string(experts.size()) + " entries; at most "
                              + std::to_string(max_assigned_experts) + " are possible",
                          "experts", "invalid_value");
  static const std::vector<std::string> members = {"layer", "expert", "hosts"};
  const std::string whose = "an entry of 'experts' has";
  std::vector<named_hosts> result;
  for (const auto& entry : experts) {
    const std::string path = "experts[" + std::to_string(result.size()) + "].";
    if (!entry.is_object())
      throw invalid_request("'experts' must be an array of objects with " + listed(members), "experts",
                            "invalid_type");
    refuse_others(entry, members, path, whose);
    const required of{entry, path, whose + " " + listed(members)};
    result.push_back({of.expert(), of.texts("hosts")});
  }
  return result;
}

} // namespace

placement_command parse_placement_command(std::string_view body) {
  const json page = openai::parse_body(body);
  const fields all{page};
  const auto& form = form_of(all);
  std::vector<std::string> members(form.members.begin(), form.members.end());
  const std::string name = std::string{"action '"} + to_string(form.action) + "'";
  const required of{page, {}, name + " needs " + listed(members)};
  members.insert(members.begin(), "action");
  members.emplace_back("dry_run");
  refuse_others(page, members, {}, name + " has");

  placement_command result;
  result.action = form.action;
  result.dry_run = all.boolean("dry_run").value_or(false);
  switch (form.action) {
  case placement_action::move:
    result.worker = of.text("from");
    result.experts = {{of.expert(), {of.text("to")}}};
    break;
  case placement_action::replicate:
    result.experts = {{of.expert(), {}}};
    result.replicas = of.number("replicas", 1);
    break;
  case placement_action::pin:
    result.experts = {{of.expert(), of.texts("hosts")}};
    break;
  case placement_action::unpin:
    result.experts = {{of.expert(), {}}};
    break;
  case placement_action::drain:
  case placement_action::undrain:
    result.worker = of.text("worker");
    break;
  case placement_action::assign:
    result.experts = assigned(of.array("experts"));
    break;
  case placement_action::rebalance:
  case placement_action::pause:
  case placement_action::resume:
    break;
  }
  return result;
}

} // namespace troupe::http
