#include "services/troupe/scrape_targets.hpp"

#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace troupe {

void scrape_targets::add(const std::string& role, const std::string& process, const std::string& address) {
  targets_[process] = {role, address};
}

void scrape_targets::write() const {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const auto& [process, one] : targets_) {
    groups.push_back({{"targets", {one.address}}, {"labels", {{"role", one.role}, {"process", process}}}});
  }
  const std::filesystem::path fresh = file_.string() + ".new";
  std::ofstream out(fresh);
  out << groups.dump(2) << '\n';
  out.close();
  if (!out) {
    throw std::runtime_error("--run-dir: cannot write " + fresh.string());
  }
  std::filesystem::rename(fresh, file_);
}

} // namespace troupe
