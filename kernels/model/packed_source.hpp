// Weights from a packed file: mapped, checked, and used where they lie, or copied.
#pragma once

#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/mapped_file.hpp"
#include "kernels/model/packed_format.hpp"

#include <memory>
#include <string>
#include <unordered_map>

namespace troupe::model {

/// Where the weights of a packed file are used.
enum class weight_memory {
  mapped, ///< where they lie: pages of the page cache, shared by all processes of a host, there at once
  copied, ///< in memory of the process, in huge pages where allowed
};

/// What becomes of a packed file of which an extent is damaged.
enum class damaged_file {
  kept,
  removed, ///< a cache's, unless it has been replaced meanwhile: the next start writes it again
};

/// Opening reads header and index; an extent's pages are read, and its checksum is compared, when it is asked
/// for.
class packed_source final : public cpu_weights {
 public:
  /// @param file  as `write_packed` left it
  /// @param rows  how rows enter quantized weights
  /// @param memory  where weights are used; copied ones take memory as they are asked for
  /// @param damaged  what becomes of the file when an extent that is asked for is
  /// @errors  model_error: not such a file, damaged, or packed for another config.json; and whoever asks for
  ///          a damaged extent gets one, `cache_damaged` where the file is gone
  static std::shared_ptr<const packed_source> open(const std::filesystem::path& file, model_config config,
                                                   kernels::row_quant rows = kernels::row_quant::none,
                                                   weight_memory memory = weight_memory::mapped,
                                                   damaged_file damaged = damaged_file::kept);

  std::string fingerprint() const override { return fingerprint_; }

  std::string description() const override;
  std::vector<float> floats(const std::string& name) const override;
  kernels::packed_matrix matrix(std::span<const std::string> names, bool plain) const override;
  kernels::expert_weights mlp(const std::string& prefix) const override;
  embedding_rows embeddings() const override;
  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override;
  void forget(std::size_t layer, std::size_t expert) const noexcept override;

  /// Of those in the file.
  std::size_t largest_expert(std::size_t layer) const override;

  /// Bytes of one expert as they lie in the file: what another worker would fetch.
  /// @errors  model_error when the file has no such expert
  std::span<const std::byte> expert_bytes(std::size_t layer, std::size_t expert) const;

 private:
  packed_source(mapped_file file, packed_index index, model_config config, kernels::row_quant rows,
                weight_memory memory, damaged_file damaged);

  const packed_extent& find(const std::string& name) const;
  std::span<const std::byte> bytes_of(const packed_extent& extent) const;
  /// The extent's bytes, paged in and verified. @errors  model_error where shape or checksum differ
  std::span<const std::byte> read(const packed_extent& extent, extent_kind kind, std::string_view format,
                                  std::span<const std::size_t> shape) const;
  /// Bytes of the file as a matrix of `extent`, where its weights are to be used.
  /// @errors  model_error where coded weights cannot be right
  kernels::packed_matrix place(const packed_extent& extent, const kernels::packed_shape& shape,
                               std::span<const std::byte> bytes) const;
  kernels::expert_weights read_mlp(const std::string& name, kernels::packed_format wanted,
                                   std::size_t intermediate) const;
  [[noreturn]] void fail(const std::string& extent, const std::string& what) const;

  mapped_file file_;
  weight_memory memory_;
  damaged_file damaged_;
  std::string fingerprint_;
  std::unordered_map<std::string, packed_extent> extents_;
  std::unordered_map<std::string, std::vector<std::size_t>> tensors_; // shapes that the config asks for
};

} // namespace troupe::model
