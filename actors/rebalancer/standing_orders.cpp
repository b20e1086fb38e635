#include "actors/rebalancer/standing_orders.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "actors/state/durable_file.hpp"
#include "actors/state/file_format.hpp"

namespace troupe {

namespace {

constexpr auto magic = "troupe-standing-orders 1";
constexpr std::uint32_t max_replicas = 4096;

std::string text_of(expert_id expert) {
  return "expert " + std::to_string(expert.index) + " of layer " + std::to_string(expert.layer);
}

std::string listed(const worker_names& workers) {
  std::string result;
  for (const auto& name : workers)
    result += (result.empty() ? "" : ", ") + name;
  return result.empty() ? "nobody" : result;
}

std::string flaw_of(expert_id expert, const std::vector<std::uint32_t>& layer_experts) {
  if (layer_experts.empty())
    return "no model is known yet: no worker has joined";
  if (expert.layer >= layer_experts.size())
    return "the model has no layer " + std::to_string(expert.layer) + ": its layers are 0 to "
           + std::to_string(layer_experts.size() - 1);
  if (expert.index >= layer_experts[expert.layer])
    return "layer " + std::to_string(expert.layer) + " has no expert " + std::to_string(expert.index)
           + (layer_experts[expert.layer] == 0
                  ? std::string{": it is dense"}
                  : ": its experts are 0 to " + std::to_string(layer_experts[expert.layer] - 1));
  return {};
}

std::string flaw_of(const std::string& worker, const worker_names& workers) {
  return workers.contains(worker)
             ? ""
             : "no expert worker is named '" + worker + "'; there are " + listed(workers);
}

std::string checksum_line(const std::string& text) {
  std::ostringstream out;
  out << "checksum " << std::hex << checksum_of(text) << '\n';
  return out.str();
}

/// Reads one line of a file: "pin 3 5 expert-0 expert-1", "replicas 3 5 2", "drain expert-1", "paused".
void take_line(standing_orders& orders, std::istringstream& words) {
  std::string kind;
  words >> kind;
  const auto take_expert = [&words] {
    expert_id expert;
    if (!(words >> expert.layer >> expert.index))
      throw std::runtime_error("expected a layer and an expert");
    return expert;
  };
  std::string name;
  if (kind == "pin") {
    auto& hosts = orders.pins[take_expert()];
    while (words >> name)
      hosts.push_back(name);
    if (hosts.empty())
      throw std::runtime_error("expected the names of hosts");
  } else if (kind == "replicas") {
    const auto expert = take_expert();
    if (!(words >> orders.replicas[expert]))
      throw std::runtime_error("expected a number of replicas");
  } else if (kind == "drain") {
    if (!(words >> name))
      throw std::runtime_error("expected the name of a worker");
    orders.drained.insert(name);
  } else if (kind == "paused") {
    orders.is_paused = true;
  } else {
    throw std::runtime_error("'" + kind + "' is unknown");
  }
  if (words >> name)
    throw std::runtime_error("'" + name + "' is too much");
}

class applied_command {
 public:
  applied_command(standing_orders& orders, const placement_command& command,
                  const std::vector<std::uint32_t>& layer_experts, const worker_names& workers)
      : orders_(orders), command_(command), layer_experts_(layer_experts), workers_(workers) {}

  /// @returns what is wrong; empty: done
  std::string apply() {
    switch (command_.action) {
    case placement_action::rebalance:
      return {};
    case placement_action::move:
      return move();
    case placement_action::replicate:
      return replicate();
    case placement_action::pin:
      return pin();
    case placement_action::unpin:
      return unpin();
    case placement_action::assign:
      return assign();
    case placement_action::drain:
      return drain();
    case placement_action::undrain:
      if (orders_.drained.erase(command_.worker) == 0)
        return "'" + command_.worker + "' is not drained";
      return {};
    case placement_action::pause:
    case placement_action::resume:
      orders_.is_paused = command_.action == placement_action::pause;
      return {};
    }
    return "the action is unknown";
  }

 private:
  /// Validates the one expert of the command.
  std::string check_one() const {
    if (command_.experts.size() != 1)
      return "exactly one expert is to be named";
    return flaw_of(command_.experts.front().expert, layer_experts_);
  }

  std::string check_host(const std::string& name) const {
    if (auto flaw = flaw_of(name, workers_); !flaw.empty())
      return flaw;
    return orders_.drained.contains(name) ? "'" + name + "' is drained; undrain it first" : "";
  }

  std::string check_hosts(const named_hosts& wanted) const {
    if (wanted.hosts.empty())
      return text_of(wanted.expert) + " needs a host";
    for (const auto& name : wanted.hosts)
      if (auto flaw = check_host(name); !flaw.empty())
        return flaw;
    return {};
  }

  std::string check_free(expert_id expert) const {
    return orders_.pins.contains(expert) ? text_of(expert) + " is pinned; unpin it first" : "";
  }

  std::string move() const {
    if (auto flaw = check_one(); !flaw.empty())
      return flaw;
    const auto& wanted = command_.experts.front();
    if (wanted.hosts.size() != 1)
      return "exactly one new host is to be named";
    if (auto flaw = flaw_of(command_.worker, workers_); !flaw.empty())
      return flaw;
    if (auto flaw = check_host(wanted.hosts.front()); !flaw.empty())
      return flaw;
    return check_free(wanted.expert);
  }

  std::string replicate() {
    if (auto flaw = check_one(); !flaw.empty())
      return flaw;
    const auto expert = command_.experts.front().expert;
    if (command_.replicas == 0 || command_.replicas > max_replicas)
      return "the number of replicas is to be 1 to " + std::to_string(max_replicas);
    if (auto flaw = check_free(expert); !flaw.empty())
      return flaw;
    orders_.replicas[expert] = command_.replicas;
    return {};
  }

  std::string pin() {
    if (auto flaw = check_one(); !flaw.empty())
      return flaw;
    const auto& wanted = command_.experts.front();
    if (auto flaw = check_hosts(wanted); !flaw.empty())
      return flaw;
    const std::set<std::string> distinct{wanted.hosts.begin(), wanted.hosts.end()};
    orders_.pins[wanted.expert] = {distinct.begin(), distinct.end()};
    orders_.replicas.erase(wanted.expert);
    return {};
  }

  std::string unpin() {
    if (auto flaw = check_one(); !flaw.empty())
      return flaw;
    const auto expert = command_.experts.front().expert;
    if (orders_.pins.erase(expert) + orders_.replicas.erase(expert) == 0)
      return text_of(expert) + " is neither pinned nor replicated";
    return {};
  }

  std::string assign() const {
    if (command_.experts.empty() || command_.experts.size() > max_assigned_experts)
      return "1 to " + std::to_string(max_assigned_experts) + " experts are to be named";
    std::set<expert_id> seen;
    for (const auto& wanted : command_.experts) {
      if (auto flaw = flaw_of(wanted.expert, layer_experts_); !flaw.empty())
        return flaw;
      if (auto flaw = check_hosts(wanted); !flaw.empty())
        return flaw;
      if (auto flaw = check_free(wanted.expert); !flaw.empty())
        return flaw;
      if (!seen.insert(wanted.expert).second)
        return text_of(wanted.expert) + " is named twice";
    }
    return {};
  }

  std::string drain() {
    if (auto flaw = flaw_of(command_.worker, workers_); !flaw.empty())
      return flaw;
    orders_.drained.insert(command_.worker);
    for (const auto& name : workers_)
      if (!orders_.drained.contains(name))
        return {};
    return "'" + command_.worker + "' is the last worker that may hold experts";
  }

  standing_orders& orders_;
  const placement_command& command_;
  const std::vector<std::uint32_t>& layer_experts_;
  const worker_names& workers_;
};

} // namespace

std::variant<standing_orders, std::string> apply(const standing_orders& orders,
                                                 const placement_command& command,
                                                 const std::vector<std::uint32_t>& layer_experts,
                                                 const worker_names& workers) {
  auto result = orders;
  if (auto flaw = applied_command{result, command, layer_experts, workers}.apply(); !flaw.empty())
    return flaw;
  return result;
}

std::string render(const standing_orders& orders) {
  std::ostringstream out;
  out << magic << '\n';
  for (const auto& [expert, hosts] : orders.pins) {
    out << "pin " << expert.layer << ' ' << expert.index;
    for (const auto& name : hosts)
      out << ' ' << name;
    out << '\n';
  }
  for (const auto& [expert, count] : orders.replicas)
    out << "replicas " << expert.layer << ' ' << expert.index << ' ' << count << '\n';
  for (const auto& name : orders.drained)
    out << "drain " << name << '\n';
  if (orders.is_paused)
    out << "paused\n";
  return out.str() + checksum_line(out.str());
}

standing_orders parse_standing_orders(const std::string& text) {
  const auto last = text.rfind("checksum ");
  if (last == std::string::npos || text.substr(last) != checksum_line(text.substr(0, last)))
    throw std::runtime_error("its checksum is missing or wrong");
  std::istringstream lines(text.substr(0, last));
  std::string line;
  if (!std::getline(lines, line) || line != magic)
    throw std::runtime_error(std::string{"line 1: expected '"} + magic + "'");
  standing_orders result;
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    try {
      take_line(result, words);
    } catch (const std::runtime_error& flaw) {
      throw std::runtime_error("line " + std::to_string(number) + ": " + flaw.what());
    }
  }
  return result;
}

standing_orders_store::standing_orders_store(const std::string& directory)
    : path_(directory + "/standing_orders") {
  remove_unfinished(path_);
}

std::optional<standing_orders> standing_orders_store::load() const {
  const auto content = read_file(path_);
  if (!content)
    return std::nullopt;
  try {
    refuse_later_format(*content, "troupe-standing-orders", 1);
    return parse_standing_orders(*content);
  } catch (const later_format& refused) {
    throw later_format("'" + path_ + "' cannot be used: " + refused.what());
  } catch (const std::runtime_error& flaw) {
    throw std::runtime_error(path_ + ": " + flaw.what());
  }
}

void standing_orders_store::save(const standing_orders& orders) const {
  replace_file(path_, render(orders));
}

} // namespace troupe
