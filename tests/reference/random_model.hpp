// Small models with random weights, written by make_model.py, and their results by the float64 reference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace troupe::test {

/// A folder that is removed with the object.
class scratch_folder {
 public:
  scratch_folder();
  ~scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// One of make_model.py's variants in a folder that is removed with the object.
class random_model {
 public:
  /// If TEST_MODELS_FOLDER is set, a copy of its folder `variant` (seed 1): for machines without numpy.
  /// @throws std::runtime_error  the script fails, or there is no such folder
  explicit random_model(const std::string& variant, unsigned seed = 1);

  const std::filesystem::path& folder() const noexcept { return folder_.path(); }

 private:
  scratch_folder folder_;
};

/// The results of reference.py in float64.
struct reference_result {
  std::vector<std::vector<double>> logprobs; // [prompt][vocab], after every prompt token
  std::vector<std::uint32_t> greedy;         // the most probable continuation
  std::vector<double> margins;               // [greedy], its lead over the second
  std::vector<double> rounding_errors;       // [greedy], how much bfloat16 changes that margin
};

/// @param rounded_runs  runs in bfloat16 that `rounding_errors` are measured with; 0: they are zeros
/// @throws std::runtime_error  the script fails
reference_result run_reference(const std::filesystem::path& folder, std::span<const std::uint32_t> prompt,
                               std::size_t greedy, std::size_t rounded_runs);

} // namespace troupe::test
