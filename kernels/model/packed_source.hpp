// Weights from a packed file: mapped and checked, then used in place or copied.
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
  mapped, ///< in place: pages of the page cache, shared by all processes of a host, available at once
  copied, ///< in memory of the process, in huge pages where allowed
};

/// What happens to a packed file with a damaged extent.
enum class damaged_file {
  kept,
  removed, ///< for a cache's file, unless it has been replaced: the next start writes it again
};

/// Opening reads header and index. Pages and checksum of an extent are read when it is requested.
class packed_source final : public cpu_weights {
 public:
  /// @param file  written by `write_packed`
  /// @param rows  how rows are converted for quantized weights
  /// @param memory  where weights are used; copied ones are allocated on request
  /// @param damaged  what happens to the file if a requested extent is damaged
  /// @throws model_error  not such a file, damaged, or packed for another config.json. Requests for a damaged
  /// extent throw it, too, as `cache_damaged` if the file was removed
  static std::shared_ptr<const packed_source> open(const std::filesystem::path& file, model_config config,
                                                   kernels::row_quant rows = kernels::row_quant::none,
                                                   weight_memory memory = weight_memory::mapped,
                                                   damaged_file damaged = damaged_file::kept);

  /// The written part of a file, without header or index.
  /// @param index  of the existing extents
  /// @throws model_error as `open`, and for requests of missing extents
  static std::shared_ptr<const packed_source> open_part(const std::filesystem::path& file, packed_index index,
                                                        model_config config);

  std::string fingerprint() const override { return fingerprint_; }

  std::string description() const override;
  std::vector<float> floats(const tensor_requirement& tensor) const override;
  kernels::packed_matrix matrix(const matrix_ref& ref) const override;
  kernels::expert_weights mlp(const mlp_ref& ref) const override;
  embedding_rows embeddings() const override;
  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override;
  void forget(std::size_t layer, std::size_t expert) const noexcept override;

  bool is_mapped() const noexcept override { return memory_ == weight_memory::mapped; }

  /// Of the experts in the file.
  std::size_t largest_expert(std::size_t layer) const override;

  /// Bytes of one expert in the file, as another worker would fetch them.
  /// @throws model_error  the file has no such expert
  std::span<const std::byte> expert_bytes(std::size_t layer, std::size_t expert) const;

 private:
  packed_source(mapped_file file, packed_index index, model_config config, kernels::row_quant rows,
                weight_memory memory, damaged_file damaged);

  const packed_extent& find(const std::string& name) const;
  std::span<const std::byte> bytes_of(const packed_extent& extent) const;
  /// The extent's bytes, paged in and verified.
  /// @throws model_error  shape or checksum differ
  std::span<const std::byte> read(const packed_extent& extent, extent_kind kind, std::string_view format,
                                  std::span<const std::size_t> shape) const;
  /// Bytes of the file as a matrix of `extent`, in the memory where weights are used.
  /// @throws model_error  coded weights are invalid
  kernels::packed_matrix place(const packed_extent& extent, const kernels::packed_shape& shape,
                               std::span<const std::byte> bytes) const;
  kernels::expert_weights read_mlp(const std::string& name, kernels::packed_format wanted,
                                   const mlp_ref& ref) const;
  [[noreturn]] void fail(const std::string& extent, const std::string& what) const;

  mapped_file file_;
  weight_memory memory_;
  damaged_file damaged_;
  std::string fingerprint_;
  std::unordered_map<std::string, packed_extent> extents_;
};

} // namespace troupe::model
