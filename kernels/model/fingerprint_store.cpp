#include "kernels/model/fingerprint_store.hpp"

#include "kernels/model/error.hpp"
#include "kernels/model/hex.hpp"
#include "kernels/model/packed_format.hpp"
#include "kernels/model/pending_file.hpp"
#include "kernels/model/text_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

namespace troupe::model {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_fingerprint_bytes = std::size_t{4} << 20; // thousands of weights files
constexpr std::int64_t least_age_ns = 2'000'000'000;                 // the coarsest clocks of file systems

constexpr std::string_view last_word = "fingerprint ";

/// The subject of a fingerprint, one item a line, followed by the fingerprint.
std::string page_of(const checkpoint& weights, const model_config& config, const std::string& fingerprint) {
  std::string page = "troupe-fingerprint 1\nconfig " + config_id_of(config) + "\n";
  for (const auto* file : weights.files()) {
    const auto id = file->id();
    page += "file " + std::to_string(id.num_bytes) + " bytes, modified " + std::to_string(id.modified)
            + ", inode " + std::to_string(id.inode) + ", " + file->path().filename().string() + "\n";
  }
  return page + std::string{last_word} + fingerprint + "\n";
}

/// The fingerprint in `file`, if it is of these weights.
std::optional<std::string> find_fingerprint(const fs::path& file, const checkpoint& weights,
                                            const model_config& config) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored))
    return std::nullopt;
  try {
    const auto page = read_text_file(file, most_fingerprint_bytes);
    constexpr std::size_t digits = 32;
    if (page.size() <= digits)
      return std::nullopt;
    auto fingerprint = page.substr(page.size() - digits - 1, digits);
    if (fingerprint.find_first_not_of("0123456789abcdef") == std::string::npos
        && page == page_of(weights, config, fingerprint))
      return fingerprint;
  } catch (const model_error&) {
    // It will be written again.
  }
  return std::nullopt;
}

bool keep_fingerprint(const fs::path& file, const std::string& text) {
  try {
    pending_file pending(file);
    pending.write_at(0, std::as_bytes(std::span{text}));
    pending.commit();
    return true;
  } catch (const model_error&) { // such as a read-only folder or a full disk
    return false;
  }
}

/// Whether each file is old enough for another write to be noticed.
bool is_settled(const checkpoint& weights) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  return std::ranges::all_of(weights.files(), [now](const mapped_file* file) {
    return file->id().modified < now - least_age_ns && !file->is_replaced() && !file->is_written_to();
  });
}

} // namespace

std::string config_id_of(const model_config& config) {
  return hex_of(checksum_of(config.canonical_json));
}

fs::path fingerprint_file(const fs::path& cache, const fs::path& folder) {
  std::error_code ignored;
  const auto canonical = fs::weakly_canonical(folder, ignored).string();
  return cache / ("fingerprint-" + std::to_string(checksum_of(canonical)) + ".txt");
}

std::string kept_fingerprint(const checkpoint& weights, const model_config& config, const fs::path& cache) {
  const auto beside = weights.folder() / fingerprint_file_name;
  if (auto found = find_fingerprint(beside, weights, config))
    return *found;
  const auto cached = cache.empty() ? fs::path{} : fingerprint_file(cache, weights.folder());
  if (!cached.empty())
    if (auto found = find_fingerprint(cached, weights, config))
      return *found;
  auto fingerprint = weights.fingerprint(config);
  if (!is_settled(weights))
    return fingerprint;
  const auto text = page_of(weights, config, fingerprint);
  if (!keep_fingerprint(beside, text) && !cached.empty()) {
    std::error_code ignored;
    fs::create_directories(cache, ignored);
    keep_fingerprint(cached, text);
  }
  return fingerprint;
}

} // namespace troupe::model
