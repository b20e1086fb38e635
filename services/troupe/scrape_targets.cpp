#include "services/troupe/scrape_targets.hpp"

#include <fstream>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

namespace troupe {

void scrape_targets::add(const std::string& role, const std::string& process, const std::string& address,
                         const std::string& scheme) {
  targets_[process] = {role, address, scheme};
}

void scrape_targets::write() const {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const auto& [process, one] : targets_) {
    nlohmann::ordered_json labels{{"role", one.role}, {"process", process}};
    if (one.scheme != "http")
      labels["__scheme__"] = one.scheme;
    groups.push_back({{"targets", {one.address}}, {"labels", std::move(labels)}});
  }
  const std::filesystem::path fresh = file_.string() + ".new";
  std::ofstream out(fresh);
  out << groups.dump(2) << '\n';
  out.close();
  if (!out)
    throw std::runtime_error("--run-dir: cannot write " + fresh.string());
  std::filesystem::rename(fresh, file_);
}

} // namespace troupe
