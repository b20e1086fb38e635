#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/mapped_file.hpp"
#include "kernels/model/safetensors.hpp"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

namespace troupe::model {

/// A weight in a mapped file, row-major; valid while its checkpoint lives. `data` may be unaligned.
struct tensor_ref {
  storage_dtype type = storage_dtype::float32;
  std::span<const std::size_t> shape;
  const std::byte* data = nullptr;
  std::size_t num_bytes = 0;
};

/// A weight that a model needs.
struct tensor_requirement {
  std::string name;
  std::vector<std::size_t> shape;
};

/// The tensors of a Hugging Face model folder: `model.safetensors`, or the files that
/// `model.safetensors.index.json` names. Opening maps the files and reads their headers; no weight is read.
/// The index says which files there are; what is in them, they say themselves, as for transformers.
///
/// Immutable once it has been matched with a config, so any number of threads may read.
class checkpoint {
 public:
  /// @errors  model_error: no checkpoint in the folder, a malformed file or index, a tensor stored twice
  static checkpoint open(const std::filesystem::path& folder);

  checkpoint(checkpoint&&) noexcept = default;
  checkpoint& operator=(checkpoint&&) = delete;

  /// @returns the tensor, or null when the checkpoint has none of that name
  const tensor_ref* find(const std::string& name) const noexcept;

  /// @errors  model_error when the checkpoint has no tensor of that name
  const tensor_ref& at(const std::string& name) const;

  /// The same, and asks for its pages, so that they can be read.
  /// @errors  model_error also when they cannot: the file has been cut short, or its disk fails
  const tensor_ref& read(const std::string& name) const;

  /// The file that a tensor of this checkpoint lies in; the folder for one without bytes.
  const std::filesystem::path& file_of(const tensor_ref& tensor) const;

  /// Looks for every tensor that the config asks for. Where a layer's experts are fused, as transformers 5
  /// holds them in memory and may save them (`experts.gate_up_proj` [experts, 2 · intermediate, hidden], gate
  /// first, and `experts.down_proj` [experts, hidden, intermediate]), each expert's matrices can be asked for
  /// by the names of `expert_tensors` from then on.
  ///
  /// @errors  one model_error that names the first problems and counts the rest: a tensor is missing, has
  ///          another shape, or a type that weights may not have
  void match(const model_config& config);

  /// Tensors that the model does not need, in the order of the files: what stands in them beside it (a value
  /// head, a bias that the architecture does not have), and what the index lists and no file has. Without
  /// those that say nothing: tables of RoPE, and an LM head that is tied. Empty before `match`.
  const std::vector<std::string>& unused() const noexcept { return unused_; }

  /// Identifies the model for cluster membership: 32 hexadecimal digits over config.json, the names, dtypes,
  /// shapes and offsets of all tensors, the sizes of the files, and 1 KiB from the middle of each tensor. The
  /// same folder gives the same string on every machine. It tells trainings apart, not edits of single rows,
  /// and is no proof against somebody who wants a collision.
  /// @errors  model_error as `read` when a file has been cut short since it was opened, or its disk fails
  std::string fingerprint(const model_config& config) const;

  const std::filesystem::path& folder() const noexcept { return folder_; }

  /// In the files.
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
  std::map<std::string, std::string> listed_only_; // tensor → file that has it, says the index, and has not
  // Names that `match` has given to parts of tensors, or to a whole one.
  std::unordered_map<std::string, tensor_ref> aliases_;
  std::deque<std::array<std::size_t, 2>> alias_shapes_;
  std::vector<std::string> unused_;
};

/// Names of the three matrices of a routed expert, each [intermediate, hidden] or, for `down`,
/// [hidden, intermediate].
struct expert_tensor_names {
  std::string gate;
  std::string up;
  std::string down;
};

expert_tensor_names expert_tensors(const model_config& config, std::size_t layer, std::size_t expert);

/// Every tensor of the attention side (what dense_model loads).
std::vector<tensor_requirement> dense_tensors(const model_config& config);

/// Every tensor of one layer's routed experts; empty for a dense layer.
std::vector<tensor_requirement> expert_layer_tensors(const model_config& config, std::size_t layer);

} // namespace troupe::model
