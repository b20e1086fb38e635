#include "load/prompt_set.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "services/options/option_parser.hpp"

namespace troupe::load {

namespace {

/// Uniform in [low, high]. The standard distributions differ between libraries, this one does not.
std::uint32_t uniform(std::mt19937_64& random, length_range range) {
  return range.low + static_cast<std::uint32_t>(random() % (std::uint64_t{range.high} - range.low + 1));
}

double unit(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
}

double normal(std::mt19937_64& random) {
  double radius = std::sqrt(-2.0 * std::log(unit(random)));
  return radius * std::cos(6.283185307179586 * unit(random));
}

/// Gamma with mean 1, by Marsaglia and Tsang ("A simple method for generating gamma variables", 2000).
double gamma_of_mean_one(std::mt19937_64& random, double shape) {
  double boost = shape < 1.0 ? std::pow(unit(random), 1.0 / shape) : 1.0;
  double d = (shape < 1.0 ? shape + 1.0 : shape) - 1.0 / 3.0;
  double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    double x = normal(random);
    double v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
    if (v > 0.0 && std::log(unit(random)) < 0.5 * x * x + d - d * v + d * std::log(v))
      return boost * d * v / shape;
  }
}

} // namespace

length_range parse_range(const std::string& text, const std::string& flag) {
  auto colon = text.find(':');
  auto number = [&](std::string_view part) {
    std::uint32_t value = 0;
    auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || stop != part.data() + part.size())
      throw option_error(flag + ": '" + text + "' is neither N nor LO:HI");
    return value;
  };
  std::string_view view = text;
  length_range range{number(view.substr(0, colon)), 0};
  range.high = colon == std::string::npos ? range.low : number(view.substr(colon + 1));
  if (range.low == 0 || range.low > range.high)
    throw option_error(flag + ": '" + text + "' is not a range of positive lengths");
  return range;
}

std::vector<std::string> read_prompts(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in)
    throw std::runtime_error("cannot read " + file.string());
  std::vector<std::string> prompts;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("prompt") || !record["prompt"].is_string()) {
      throw std::runtime_error(file.string() + ":" + std::to_string(number)
                               + ": no JSON object with a \"prompt\"");
    }
    prompts.push_back(record["prompt"].get<std::string>());
  }
  if (prompts.empty())
    throw std::runtime_error(file.string() + ": no prompts");
  return prompts;
}

std::vector<domain> read_domains(const std::vector<std::string>& files_and_folders) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : files_and_folders) {
    if (!std::filesystem::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    const auto first = static_cast<std::ptrdiff_t>(files.size());
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".jsonl")
        files.push_back(entry.path());
    if (static_cast<std::ptrdiff_t>(files.size()) == first)
      throw std::runtime_error("no <domain>.jsonl in " + path);
    std::sort(files.begin() + first, files.end());
  }
  std::vector<domain> domains;
  for (const auto& file : files) {
    const auto name = file.stem().string();
    if (std::any_of(domains.begin(), domains.end(), [&](const auto& known) { return known.name == name; }))
      throw std::runtime_error(file.string() + ": there is a domain " + name + " already");
    domains.push_back({name, read_prompts(file)});
  }
  return domains;
}

std::vector<prompt> interleaved(const std::vector<std::vector<prompt>>& lists) {
  std::size_t longest = 0;
  for (const auto& list : lists)
    longest = std::max(longest, list.size());
  std::vector<prompt> result;
  for (std::size_t i = 0; i < longest; ++i) {
    for (const auto& list : lists)
      if (i < list.size())
        result.push_back(list[i]);
  }
  return result;
}

std::vector<prompt> make_prompts(const std::vector<std::string>& texts, std::uint32_t count,
                                 std::uint64_t seed, length_range input, length_range output,
                                 std::uint32_t vocab_size) {
  std::mt19937_64 random(seed);
  std::vector<prompt> made(count);
  for (auto& p : made) {
    if (texts.empty()) {
      p.tokens.resize(uniform(random, input));
      for (auto& token : p.tokens)
        token = static_cast<std::int32_t>(random() % vocab_size);
    } else {
      p.text = texts[random() % texts.size()];
    }
    p.max_tokens = uniform(random, output);
  }
  return made;
}

std::vector<double> arrival_times(std::uint32_t count, double rate, double burstiness, std::uint64_t seed) {
  std::vector<double> times(count, 0.0);
  if (count == 0 || rate <= 0.0 || std::isinf(rate))
    return times;
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15U);
  double now = 0.0;
  for (auto& time : times) {
    now += std::isinf(burstiness) ? 1.0 : gamma_of_mean_one(random, burstiness);
    time = now;
  }
  // The sum of random gaps deviates by a percent or two, which would distort the throughput.
  double wanted = count / rate;
  if (now <= wanted / std::numeric_limits<double>::max())
    return times; // so bursty that all gaps underflow: nothing to scale
  double scale = wanted / now;
  for (auto& time : times)
    time *= scale;
  return times;
}

} // namespace troupe::load
