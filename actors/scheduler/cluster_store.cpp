#include "actors/scheduler/cluster_store.hpp"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "actors/state/durable_file.hpp"
#include "actors/state/file_format.hpp"

namespace troupe {

namespace {

constexpr auto term_file = "term";
constexpr auto placement_file = "placement";
constexpr auto term_magic = "troupe-term 1";
/// Lines behind the layers may be added without another number.
constexpr auto placement_magic = "troupe-placement 2";

/// Bounds on the counts in a file, so that a damaged count cannot exhaust memory. (The checksum is checked
/// before them.)
constexpr std::uint64_t max_count = 1U << 20U;

std::string with_checksum(std::string text) {
  auto sum = checksum_of(text);
  std::ostringstream out;
  out << "checksum " << std::hex << sum << '\n';
  return std::move(text) + out.str();
}

/// Reads "key value value ..." lines one after another and says which one is wrong.
class line_reader {
 public:
  explicit line_reader(const std::string& text, const std::string& magic) : lines_(text) {
    auto last = text.rfind("checksum ");
    if (last == std::string::npos || (last > 0 && text[last - 1] != '\n'))
      throw std::runtime_error("no checksum at the end");
    if (with_checksum(text.substr(0, last)) != text)
      throw std::runtime_error("the checksum does not match the content");
    next("magic");
    if (line_.str() != magic)
      throw std::runtime_error("line 1: expected '" + magic + "'");
  }

  /// Goes to the next line, which must start with `key`.
  void enter(const std::string& key) {
    next(key);
    std::string found;
    if (!(line_ >> found) || found != key)
      fail("expected '" + key + "'");
  }

  /// Whether the next line starts with `key`.
  bool is_next(const std::string& key) {
    const auto here = lines_.tellg();
    std::string found;
    lines_ >> found;
    lines_.clear();
    lines_.seekg(here);
    return found == key;
  }

  std::uint64_t number() {
    std::uint64_t value = 0;
    if (!(line_ >> value))
      fail("expected a number");
    return value;
  }

  std::uint32_t count() {
    auto value = number();
    if (value > max_count)
      fail("the count " + std::to_string(value) + " is out of range");
    return static_cast<std::uint32_t>(value);
  }

  std::string text() {
    std::string value;
    if (!(line_ >> std::quoted(value)))
      fail("expected a text in quotes");
    return value;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("line " + std::to_string(number_) + ": " + what);
  }

 private:
  void next(const std::string& key) {
    std::string line;
    ++number_;
    if (!std::getline(lines_, line))
      fail("expected '" + key + "', the file ends");
    line_.clear();
    line_.str(line);
  }

  std::istringstream lines_;
  std::istringstream line_;
  std::size_t number_ = 0;
};

std::uint64_t parse_term(const std::string& text) {
  line_reader in(text, term_magic);
  in.enter("term");
  return in.number();
}

} // namespace

stored_cluster stored_of(const model_identity& identity, const cluster_view& view) {
  stored_cluster stored{identity, view.experts, {}};
  for (const auto& worker : view.workers)
    if (worker.role != worker_role::gateway)
      stored.workers.push_back(worker);
  return stored;
}

std::string render(const stored_cluster& cluster) {
  std::ostringstream out;
  const auto& experts = cluster.experts;
  out << placement_magic << '\n';
  out << "placement " << experts.term << ' ' << experts.epoch << '\n';
  out << "model " << std::quoted(cluster.identity.fingerprint) << ' '
      << std::quoted(cluster.identity.attention_class) << ' ' << std::quoted(cluster.identity.expert_class)
      << '\n';
  out << "layer_experts " << cluster.identity.layer_experts.size();
  for (auto count : cluster.identity.layer_experts)
    out << ' ' << count;
  out << "\nworkers " << cluster.workers.size() << '\n';
  for (const auto& worker : cluster.workers)
    out << "worker " << worker.id.value << ' ' << static_cast<unsigned>(worker.role) << ' '
        << std::quoted(worker.name) << ' ' << std::quoted(worker.endpoint) << '\n';
  out << "layers " << experts.layers.size() << '\n';
  for (const auto& layer : experts.layers) {
    out << "layer " << layer->version << ' ' << layer->experts.size() << '\n';
    for (const auto& expert : layer->experts) {
      out << "hosts " << expert.hosts.size();
      for (auto host : expert.hosts)
        out << ' ' << host.value;
      out << '\n';
    }
  }
  if (cluster.traced_ppm)
    out << "traced " << *cluster.traced_ppm << '\n';
  return with_checksum(out.str());
}

stored_cluster parse_stored_cluster(const std::string& text) {
  line_reader in(text, placement_magic);
  stored_cluster result;
  in.enter("placement");
  result.experts.term = in.number();
  result.experts.epoch = in.number();
  in.enter("model");
  result.identity.fingerprint = in.text();
  result.identity.attention_class = in.text();
  result.identity.expert_class = in.text();
  in.enter("layer_experts");
  for (auto left = in.count(); left > 0; --left)
    result.identity.layer_experts.push_back(in.count());
  in.enter("workers");
  for (auto left = in.count(); left > 0; --left) {
    in.enter("worker");
    auto& worker = result.workers.emplace_back();
    worker.id.value = in.number();
    auto role = in.number();
    if (role > static_cast<std::uint64_t>(worker_role::expert))
      in.fail("no such role: " + std::to_string(role));
    worker.role = static_cast<worker_role>(role);
    worker.name = in.text();
    worker.endpoint = in.text();
  }
  in.enter("layers");
  for (auto layers = in.count(); layers > 0; --layers) {
    in.enter("layer");
    layer_placement layer;
    layer.version = in.number();
    for (auto experts = in.count(); experts > 0; --experts) {
      in.enter("hosts");
      auto& hosts = layer.experts.emplace_back().hosts;
      for (auto left = in.count(); left > 0; --left)
        hosts.push_back({in.number()});
    }
    result.experts.layers.push_back(std::make_shared<const layer_placement>(std::move(layer)));
  }
  if (in.is_next("traced")) {
    in.enter("traced");
    result.traced_ppm = in.count();
  }
  return result;
}

cluster_store::cluster_store(std::string directory) : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error)
    throw std::runtime_error("cannot make the state directory '" + directory_ + "': " + error.message());
}

cluster_store::recovered cluster_store::load() const {
  recovered result;
  auto attempt = [&](const char* name, auto parse) {
    auto path = directory_ + "/" + name;
    remove_unfinished(path);
    try {
      if (auto text = read_file(path)) {
        refuse_later_format(*text, "troupe-term", 1);
        refuse_later_format(*text, "troupe-placement", 2);
        parse(*text);
      }
    } catch (const later_format& refused) {
      throw later_format("'" + path + "' cannot be used: " + refused.what());
    } catch (const std::exception& failure) {
      result.problems.push_back("the stored " + std::string(name) + " '" + path
                                + "' is not used: " + failure.what());
    }
  };
  attempt(term_file, [&](const std::string& text) { result.term = parse_term(text); });
  attempt(placement_file, [&](const std::string& text) {
    result.cluster = parse_stored_cluster(text);
    result.term = std::max(result.term, result.cluster->experts.term);
  });
  return result;
}

void cluster_store::save_term(std::uint64_t term) const {
  replace(term_file, with_checksum(std::string(term_magic) + "\nterm " + std::to_string(term) + '\n'));
}

void cluster_store::save(const stored_cluster& cluster) const {
  replace(placement_file, render(cluster));
}

void cluster_store::replace(const std::string& name, const std::string& content) const {
  replace_file(directory_ + "/" + name, content);
}

} // namespace troupe
