#include "tests/reference/random_model.hpp"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace troupe::test {

namespace {

// Debian's interpreter by path: others in PATH may lack numpy.
const std::string script_folder = "/usr/bin/python3 -B " TROUPE_SOURCE_DIR "/tests/reference/";

void run_script(const std::string& arguments) {
  const auto command = script_folder + arguments;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): tests run one script at a time
  if (std::system(command.c_str()) != 0)
    throw std::runtime_error("failed: " + command);
}

} // namespace

scratch_folder::scratch_folder() {
  auto name = (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw std::runtime_error("cannot make " + name);
  path_ = name;
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

random_model::random_model(const std::string& variant, unsigned seed) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): it is never set
  if (const auto* made = std::getenv("TEST_MODELS_FOLDER"); made != nullptr && seed == 1) {
    std::filesystem::copy(std::filesystem::path(made) / variant, folder());
    return;
  }
  run_script("make_model.py --variant " + variant + " --seed " + std::to_string(seed) + " --out "
             + folder().string());
}

reference_result run_reference(const std::filesystem::path& folder, std::span<const std::uint32_t> prompt,
                               std::size_t greedy, std::size_t rounded_runs) {
  std::string tokens;
  for (const auto token : prompt)
    tokens += (tokens.empty() ? "" : ",") + std::to_string(token);
  const auto output = folder / "reference-result.json";
  run_script("reference.py " + folder.string() + " --prompt " + tokens + " --greedy " + std::to_string(greedy)
             + " --rounded-runs " + std::to_string(rounded_runs) + " > " + output.string());
  std::ifstream file(output);
  const auto json = nlohmann::json::parse(file);
  reference_result result;
  json.at("logprobs").get_to(result.logprobs);
  json.at("greedy").get_to(result.greedy);
  json.at("margins").get_to(result.margins);
  json.at("rounding_errors").get_to(result.rounding_errors);
  return result;
}

} // namespace troupe::test
