#include "services/options/command_description.hpp"

#include <stdexcept>

#include <nlohmann/json.hpp>

namespace troupe {

namespace {

using nlohmann::ordered_json;

ordered_json page_of(const command_description& what) {
  ordered_json page{{"name", what.name}, {"summary", what.summary}, {"text", what.text}};
  page["arguments"] = ordered_json::array();
  for (const auto& argument : what.arguments)
    page["arguments"].push_back({{"name", argument.name}, {"help", argument.help}});
  page["options"] = ordered_json::array();
  for (const auto& option : what.options) {
    page["options"].push_back({{"name", option.name},
                               {"placeholder", option.placeholder},
                               {"help", option.help},
                               {"default", option.default_text},
                               {"is_toggle", option.is_toggle}});
  }
  page["commands"] = ordered_json::array();
  for (const auto& command : what.commands)
    page["commands"].push_back(page_of(command));
  page["footer"] = what.footer;
  return page;
}

command_description description_of(const ordered_json& page) {
  command_description what;
  page.at("name").get_to(what.name);
  page.at("summary").get_to(what.summary);
  page.at("text").get_to(what.text);
  page.at("footer").get_to(what.footer);
  for (const auto& argument : page.at("arguments"))
    what.arguments.push_back({argument.at("name"), argument.at("help")});
  for (const auto& option : page.at("options")) {
    what.options.push_back({option.at("name"), option.at("placeholder"), option.at("help"),
                            option.at("default"), option.at("is_toggle")});
  }
  for (const auto& command : page.at("commands"))
    what.commands.push_back(description_of(command));
  return what;
}

} // namespace

bool asks_for_description(const std::vector<std::string>& arguments) {
  return arguments.size() == 1 && arguments.front() == describe_word;
}

std::string to_json(const command_description& what) {
  return page_of(what).dump();
}

command_description parse_description(const std::string& json) {
  const auto page = ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  try {
    return description_of(page);
  } catch (const ordered_json::exception& error) {
    throw std::runtime_error(std::string("this is no description of a program: ") + error.what());
  }
}

} // namespace troupe
