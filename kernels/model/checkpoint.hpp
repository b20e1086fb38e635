// The tensors of a Hugging Face model folder.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/mapped_file.hpp"
#include "kernels/model/safetensors.hpp"

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

namespace troupe::model {

/// A weight in a mapped file; valid while its checkpoint lives. `data` may be unaligned.
struct tensor_ref {
  storage_dtype type = storage_dtype::float32;
  std::span<const std::size_t> shape;
  const std::byte* data = nullptr;
  std::size_t num_bytes = 0; ///< from the first value to the last
  /// Elements from a row to the next, and from a column to the next; 0: dense and row-major.
  std::size_t row_step = 0;
  std::size_t column_step = 0;

  bool is_dense() const noexcept { return row_step == 0; }
};

/// Tensors of `model.safetensors`, or of the files that `model.safetensors.index.json` names. Opening maps
/// the files and reads their headers, without read-ahead; no weight is read. The index only lists the files;
/// their headers determine the tensors, as in transformers.
///
/// Immutable after `match`, so any number of threads may read.
class checkpoint {
 public:
  /// @throws model_error  no checkpoint in the folder, a malformed file or index, a tensor stored twice
  static checkpoint open(const std::filesystem::path& folder);

  checkpoint(checkpoint&&) noexcept = default;
  checkpoint& operator=(checkpoint&&) = delete;

  /// @returns the tensor, or null if the checkpoint has none of that name
  const tensor_ref* find(const std::string& name) const noexcept;

  /// @throws model_error  the checkpoint has no tensor of that name
  const tensor_ref& at(const std::string& name) const;

  /// The same, and makes its pages readable.
  /// @throws model_error also if that fails: the file has been truncated, or its disk fails
  const tensor_ref& read(const std::string& name) const;

  /// The file of a tensor of this checkpoint; the folder for a tensor without bytes.
  const std::filesystem::path& file_of(const tensor_ref& tensor) const;

  /// Finds every tensor that the config requires, under its name or in another place that the program names.
  ///
  /// @throws model_error naming the first problems and counting the rest: a tensor is missing, has another
  /// shape, or a type that weights may not have
  void match(const model_config& config);

  /// Unused tensors, in file order: extra ones (such as a value head or a bias that the architecture lacks),
  /// and index entries without data. Leaves out meaningless ones: tables of RoPE, and a tied LM head. Empty
  /// before `match`.
  const std::vector<std::string>& unused() const noexcept { return unused_; }

  /// Identifies the model for cluster membership: 32 hexadecimal digits over config.json, the names, dtypes,
  /// shapes and offsets of all tensors, the sizes of the files, and 1 KiB from the middle of each tensor. The
  /// same folder gives the same string on every machine. It distinguishes trainings, not edits of single
  /// rows, and does not resist deliberate collisions.
  ///
  /// Reads a page or two of each tensor, without read-ahead: some 90 MB for a model with 18,000 tensors.
  /// `fingerprint_store` caches it.
  /// @throws model_error as `read`, if a file was truncated since it was opened, or its disk fails
  std::string fingerprint(const model_config& config) const;

  /// Its files, ordered by name.
  std::vector<const mapped_file*> files() const;

  const std::filesystem::path& folder() const noexcept { return folder_; }

  /// Number of tensors in the files.
  std::size_t num_tensors() const noexcept { return tensors_.size(); }

 private:
  checkpoint() = default;

  class matching;

  void add_file(const std::filesystem::path& path);

  struct shard {
    mapped_file file;
    std::vector<tensor_entry> entries; // in the order of their data
  };

  /// Null for a tensor without bytes.
  const mapped_file* file_with(const tensor_ref& tensor) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<const shard>> shards_; // tensor_ref::shape points into entries
  std::unordered_map<std::string, tensor_ref> tensors_;
  // Tensor → file that has it according to the index, but does not.
  std::map<std::string, std::string> listed_only_;
  // Names given by `match` to parts of tensors, or to whole ones elsewhere.
  std::unordered_map<std::string, tensor_ref> aliases_;
  std::deque<std::vector<std::size_t>> alias_shapes_;
  std::vector<std::string> unused_;
};

} // namespace troupe::model
