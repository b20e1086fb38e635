#include "services/history/history_json.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "actors/history/activation_history.hpp"
#include "services/pages/history_page.hpp"

namespace troupe {

namespace {

/// 64-bit ids do not fit the numbers of JavaScript.
std::string hex(worker_id id) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(id.value));
  return digits.data();
}

/// As `hex` writes it.
/// @param number  of the window, for the error
worker_id id_of(const std::string& digits, std::size_t number) {
  worker_id id;
  const auto* end = digits.data() + digits.size();
  if (const auto read = std::from_chars(digits.data(), end, id.value, 16);
      read.ec != std::errc{} || read.ptr != end)
    throw std::runtime_error("'windows[" + std::to_string(number) + "].worker' is no id in hexadecimal");
  return id;
}

pages::window_part part_of(const history_window& window, const std::vector<std::uint32_t>& layer_experts) {
  const auto decoded = decode_window(window.encoded, layer_experts);
  const auto& counts = decoded.counts;
  pages::window_part result{hex(window.worker),
                            window.sequence,
                            window.at_ms,
                            decoded.duration_ms,
                            counts.tokens,
                            counts.micro_batches,
                            {}};
  for (const auto& layer : counts.rows) {
    auto& pairs = result.rows.emplace_back();
    for (std::size_t expert = 0; expert < layer.size(); ++expert)
      if (layer[expert] > 0)
        pairs.insert(pairs.end(), {expert, layer[expert]});
  }
  return result;
}

std::string encoded(const pages::window_part& part, const std::vector<std::uint32_t>& layer_experts) {
  activation_window result;
  result.duration_ms = part.duration_ms;
  result.counts.tokens = part.tokens;
  result.counts.micro_batches = part.micro_batches.value_or(0); // not in files of earlier versions
  for (std::size_t layer = 0; layer < part.rows.size(); ++layer) {
    auto& rows = result.counts.rows.emplace_back(layer_experts[layer]);
    const auto& pairs = part.rows[layer];
    for (std::size_t i = 0; i < pairs.size(); i += 2)
      rows[pairs[i]] = pairs[i + 1];
  }
  return encode(result);
}

} // namespace

std::string history_json(const history_snapshot& history) {
  pages::history_page page;
  page.fingerprint = history.fingerprint;
  page.layer_experts = history.layer_experts;
  page.half_life_ms = history.half_life_ms;
  page.age_ms = history.age_ms;
  page.tokens = history.tokens;
  page.rows = history.rows;
  page.decayed = history.decayed;
  for (const auto& window : history.windows)
    page.windows.push_back(part_of(window, history.layer_experts));
  return pages::encode_history(page);
}

history_snapshot parse_history_json(const std::string& text) {
  auto page = pages::decode_history(text);
  if (const auto flaw = shape_flaw_of(page.layer_experts); !flaw.empty())
    throw std::runtime_error(flaw);
  history_snapshot result{std::move(page.fingerprint),
                          std::move(page.layer_experts),
                          page.half_life_ms,
                          page.age_ms,
                          page.tokens,
                          page.rows,
                          std::move(page.decayed),
                          {}};
  for (const auto& part : page.windows)
    result.windows.push_back({id_of(part.worker, result.windows.size()), part.sequence, part.at_ms,
                              encoded(part, result.layer_experts)});
  if (const auto flaw = flaw_of(result); !flaw.empty())
    throw std::runtime_error(flaw);
  return result;
}

history_snapshot read_history_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in)
    throw std::runtime_error("--history: cannot read " + path);
  const auto size = static_cast<std::streamoff>(in.tellg());
  if (size < 0 || static_cast<std::uint64_t>(size) > max_history_file_bytes)
    throw std::runtime_error("--history: " + path + " is larger than "
                             + std::to_string(max_history_file_bytes >> 20) + " MiB, or no file");
  in.seekg(0);
  const std::string content(std::istreambuf_iterator<char>(in), {});
  try {
    return parse_history_json(content);
  } catch (const std::runtime_error& flaw) {
    throw std::runtime_error("--history: " + path + " is no activation history: " + flaw.what());
  }
}

} // namespace troupe
