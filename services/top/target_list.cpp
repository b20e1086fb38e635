#include "services/top/target_list.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace troupe::top {

std::vector<target> parse_targets(const std::string& text) {
  using nlohmann::json;
  const json groups = json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<target> found;
  try {
    if (!groups.is_array()) {
      throw std::runtime_error("no array");
    }
    for (const json& group : groups) {
      const json labels = group.value("labels", json::object());
      for (const std::string address : group.at("targets")) {
        found.push_back({labels.value("role", ""), labels.value("process", address),
                         labels.value("__scheme__", "http") + "://" + address});
      }
    }
  } catch (const std::exception&) {
    throw std::runtime_error(
        R"(it is no list of targets; write [{"targets": ["HOST:PORT"], "labels": {"role": "expert", )"
        R"("process": "expert-0"}}, ...], as 'troupe up' does in its --run-dir)");
  }
  return found;
}

std::vector<target> read_targets(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw std::runtime_error("--targets: cannot read " + file);
  }
  try {
    return parse_targets(std::string(std::istreambuf_iterator<char>(in), {}));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("--targets: " + file + ": " + error.what());
  }
}

} // namespace troupe::top
