#include "tests/bench/activation_traces.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace troupe {

namespace {

/// Pseudo-random numbers that are equal on every machine, unlike the standard library's distributions.
class generator {
 public:
  explicit generator(std::uint32_t seed) : random_(seed) {}

  double uniform() { return (static_cast<double>(random_()) + 0.5) / 4294967296.0; }

  double normal() {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * 3.14159265358979323846 * uniform());
  }

  std::vector<std::uint32_t> permutation(std::uint32_t size) {
    std::vector<std::uint32_t> result(size);
    std::iota(result.begin(), result.end(), 0U);
    for (std::uint32_t at = size; at > 1; --at)
      std::swap(result[at - 1], result[static_cast<std::uint32_t>(uniform() * at)]);
    return result;
  }

  /// Draws rows one by one.
  std::vector<float> sample(const std::vector<double>& popularity, std::uint32_t num_rows) {
    std::vector<double> sums(popularity.size());
    std::partial_sum(popularity.begin(), popularity.end(), sums.begin());
    std::vector<float> rows(popularity.size());
    for (std::uint32_t row = 0; row < num_rows; ++row) {
      const auto at = std::upper_bound(sums.begin(), sums.end() - 1, uniform() * sums.back());
      ++rows[static_cast<std::size_t>(at - sums.begin())];
    }
    return rows;
  }

 private:
  std::mt19937 random_;
};

/// [experts]
std::vector<double> zipf(generator& random, std::uint32_t num_experts) {
  std::vector<double> popularity;
  for (auto rank : random.permutation(num_experts))
    popularity.push_back(1 / (rank + 1.0));
  return popularity;
}

bool has_rows(const std::vector<float>& layer) {
  return std::any_of(layer.begin(), layer.end(), [](float rows) { return rows > 0; });
}

/// Calls for the popularity of each window and layer in turn.
activation_trace
synthetic(std::string name, const synthetic_shape& shape, generator& random,
          const std::function<std::vector<double>(std::uint32_t, std::uint32_t)>& popularity) {
  activation_trace result{
      std::move(name), std::to_string(shape.rows_per_window) + " (row, expert) pairs", {}};
  for (std::uint32_t window = 0; window < shape.num_windows; ++window) {
    auto& added = result.windows.emplace_back();
    for (std::uint32_t layer = 0; layer < shape.num_layers; ++layer)
      added.rows.push_back(random.sample(popularity(window, layer), shape.rows_per_window));
  }
  return result;
}

} // namespace

std::vector<activation_trace> read_traces(const std::filesystem::path& file) {
  try {
    std::ifstream in{file};
    std::string line;
    if (!std::getline(in, line))
      throw std::runtime_error("it is empty or cannot be read");
    const auto header = nlohmann::json::parse(line);
    if (header.at("format") != "troupe-trace 1")
      throw std::runtime_error("its format is not 'troupe-trace 1'");
    const auto name = header.at("trace").get<std::string>();
    const auto batch = header.contains("window")
                           ? header["window"].get<std::string>()
                           : std::to_string(header.at("batch").get<int>()) + " requests of "
                                 + std::to_string(header.at("tokens").get<int>()) + " tokens";
    std::vector<activation_trace> traces;
    while (std::getline(in, line)) {
      const auto window = nlohmann::json::parse(line);
      const auto domain = window.value("domain", name);
      const auto rows = window.at("rows").get<expert_table<float>>();
      if (rows.empty() || !std::all_of(rows.begin(), rows.end(), has_rows))
        continue;
      auto found = std::find_if(traces.begin(), traces.end(),
                                [&](const activation_trace& trace) { return trace.name == domain; });
      if (found == traces.end())
        found = traces.insert(found, {domain, batch, {}});
      found->windows.push_back({rows, window.value("weight", 1.0), window.value("steps", 0.0)});
    }
    if (traces.empty())
      throw std::runtime_error("no window has any rows");
    return traces;
  } catch (const std::exception& error) {
    throw std::runtime_error(file.string() + ": " + error.what());
  }
}

activation_trace mixed(const std::vector<activation_trace>& traces) {
  activation_trace result{"mixed", std::to_string(traces.size()) + " x " + traces.at(0).batch,
                          traces[0].windows};
  for (const auto& trace : traces)
    result.windows.resize(std::min(result.windows.size(), trace.windows.size()));
  for (std::size_t at = 1; at < traces.size(); ++at)
    for (std::size_t window = 0; window < result.windows.size(); ++window)
      for (std::size_t layer = 0; layer < result.windows[window].rows.size(); ++layer)
        for (std::size_t expert = 0; expert < result.windows[window].rows[layer].size(); ++expert)
          result.windows[window].rows[layer][expert] += traces[at].windows[window].rows[layer][expert];
  return result;
}

activation_trace fading(const activation_trace& from, const activation_trace& to) {
  auto result = from;
  result.name = from.name + " to " + to.name;
  result.windows.resize(std::min(from.windows.size(), to.windows.size()));
  for (std::size_t window = 0; window < result.windows.size(); ++window) {
    const auto share = static_cast<float>(window) / static_cast<float>(result.windows.size() - 1);
    for (std::size_t layer = 0; layer < result.windows[window].rows.size(); ++layer)
      for (std::size_t expert = 0; expert < result.windows[window].rows[layer].size(); ++expert) {
        auto& rows = result.windows[window].rows[layer][expert];
        rows = (1 - share) * rows + share * to.windows[window].rows[layer][expert];
      }
  }
  return result;
}

activation_trace zipf_trace(const synthetic_shape& shape, std::uint32_t seed) {
  generator random{seed};
  std::vector<std::vector<double>> layers;
  for (std::uint32_t layer = 0; layer < shape.num_layers; ++layer)
    layers.push_back(zipf(random, shape.num_experts));
  return synthetic("Zipf", shape, random, [&](std::uint32_t, std::uint32_t layer) { return layers[layer]; });
}

activation_trace drifting_trace(const synthetic_shape& shape, std::uint32_t seed) {
  constexpr double step = 0.1; // of a logarithm, from window to window
  generator random{seed};
  std::vector<std::vector<double>> layers;
  for (std::uint32_t layer = 0; layer < shape.num_layers; ++layer)
    layers.push_back(zipf(random, shape.num_experts));
  return synthetic("drifting", shape, random, [&](std::uint32_t, std::uint32_t layer) {
    for (auto& popularity : layers[layer])
      popularity *= std::exp(step * random.normal());
    return layers[layer];
  });
}

activation_trace correlated_trace(const synthetic_shape& shape, std::uint32_t seed) {
  constexpr std::uint32_t num_groups = 8;
  generator random{seed};
  std::vector<std::vector<std::uint32_t>> group_of;
  std::vector<std::vector<double>> layers;
  for (std::uint32_t layer = 0; layer < shape.num_layers; ++layer) {
    group_of.push_back(random.permutation(shape.num_experts));
    layers.push_back(zipf(random, shape.num_experts));
    for (auto& popularity : layers.back())
      popularity = std::sqrt(popularity); // groups matter, not single experts
  }
  return synthetic("correlated", shape, random, [&](std::uint32_t, std::uint32_t layer) {
    std::vector<double> heat;
    for (std::uint32_t group = 0; group < num_groups; ++group)
      heat.push_back(random.uniform() < 0.25 ? 4 : 1);
    auto popularity = layers[layer];
    for (std::uint32_t expert = 0; expert < popularity.size(); ++expert)
      popularity[expert] *= heat[group_of[layer][expert] % num_groups];
    return popularity;
  });
}

} // namespace troupe
