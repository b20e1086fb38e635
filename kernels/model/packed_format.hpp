// The layout of a packed weight file (docs/packed-weights.md), shared by writer and reader.
#pragma once

#include "kernels/arithmetic_revision.hpp"
#include "kernels/model/program/tensors.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/tensor.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::model {

/// Name of the file in a packed model folder.
inline constexpr const char* packed_file_name = "model.troupe";

/// Version of the layout; `kernels::arithmetic_revision` is that of the numbers in it.
inline constexpr std::uint32_t packed_file_version = 2;

/// Alignment of extents.
inline constexpr std::uint64_t extent_alignment = 4096;

/// Content of an extent.
enum class extent_kind : std::uint8_t {
  vector,      ///< f32 values; shape [n]
  matrix,      ///< one packed matrix; shape [N, K]
  mlp,         ///< gate and up interleaved, then down; shape [intermediate, hidden]; or with its biases
               ///< behind, shape [intermediate, hidden, number of biases]
  ungated_mlp, ///< the same with one matrix in place of gate and up
  embeddings,  ///< rows, then for int8 their scales; shape [vocab, hidden, row stride]
};

std::string_view name_of(extent_kind kind) noexcept;

/// One item of a file, which can be read, mapped or fetched alone.
struct packed_extent {
  std::string name;
  extent_kind kind = extent_kind::vector;
  std::string format; // name of a packed_format or, for vectors and embeddings, of a dtype
  std::vector<std::size_t> shape;
  std::uint64_t offset = 0;
  std::uint64_t num_bytes = 0;
  std::uint64_t checksum = 0; // XXH3, 64 bit
};

/// Everything about a file except its extents' bytes.
struct packed_index {
  std::string fingerprint;           // of the checkpoint
  std::uint64_t config_checksum = 0; // of its config.json, canonical
  kernels::dtype type = kernels::dtype::f32;
  quantization quant; // without `rows`
  std::vector<packed_extent> extents;
};

/// XXH3, 64 bit.
std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept;

std::uint64_t checksum_of(std::string_view text) noexcept;

/// Of concatenated pieces.
std::uint64_t checksum_of(std::span<const std::span<const std::byte>> pieces);

/// The first bytes of a file, with the place of its index.
struct packed_header {
  static constexpr std::size_t num_bytes = 64;

  std::uint64_t index_offset = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t index_checksum = 0;
  std::uint64_t file_bytes = 0;
  /// Of the program that wrote the file.
  std::uint32_t arithmetic_revision = kernels::arithmetic_revision;

  std::array<std::byte, num_bytes> encode() const;

  /// @throws model_error  another kind of file, another version or arithmetic revision, damaged, or of a
  /// wrong length
  static packed_header decode(std::span<const std::byte> file, const std::string& file_name);
};

/// The index as JSON.
std::string encode(const packed_index& index);

/// Parses the index and checks all that can be checked without the extents: names, sizes that agree with
/// kinds and shapes, and disjoint extents inside the file.
/// @throws model_error naming the file and the extent
packed_index decode_index(std::string_view json, std::uint64_t index_offset, const std::string& file_name);

/// One extent of the index in one line; and the reverse, with checks.
/// @throws model_error
std::string encode(const packed_extent& extent);
packed_extent decode_extent(std::string_view json);

/// The name of an extent.
std::string expert_extent_name(std::size_t layer, std::size_t expert);
std::string matrix_extent_name(const matrix_ref& matrix);

} // namespace troupe::model
