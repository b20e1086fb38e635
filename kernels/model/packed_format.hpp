// The layout of a packed weight file (docs/packed-weights.md): what writer and reader share.
#pragma once

#include "kernels/arithmetic_revision.hpp"
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

/// What the file of a packed model folder is called.
inline constexpr const char* packed_file_name = "model.troupe";

/// Of the layout; what the numbers in it are is up to `kernels::arithmetic_revision`.
inline constexpr std::uint32_t packed_file_version = 2;

/// Extents begin at multiples of this.
inline constexpr std::uint64_t extent_alignment = 4096;

/// What an extent holds.
enum class extent_kind : std::uint8_t {
  vector,     ///< f32 values; shape [n]
  matrix,     ///< one packed matrix; shape [N, K]
  mlp,        ///< gate and up interleaved, then down; shape [intermediate, hidden]
  embeddings, ///< rows, then their scales where they are int8; shape [vocab, hidden, row stride]
};

std::string_view name_of(extent_kind kind) noexcept;

/// One item of a file: read, mapped or fetched without any other.
struct packed_extent {
  std::string name;
  extent_kind kind = extent_kind::vector;
  std::string format; // name of a packed_format or, for vectors and embeddings, of a dtype
  std::vector<std::size_t> shape;
  std::uint64_t offset = 0;
  std::uint64_t num_bytes = 0;
  std::uint64_t checksum = 0; // XXH3, 64 bit
};

/// Everything about a file but its extents' bytes.
struct packed_index {
  std::string fingerprint;           // of the checkpoint
  std::uint64_t config_checksum = 0; // of its config.json, canonical
  kernels::dtype type = kernels::dtype::f32;
  quantization quant; // rows: none
  std::vector<packed_extent> extents;
};

/// XXH3, 64 bit.
std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept;

std::uint64_t checksum_of(std::string_view text) noexcept;

/// Of pieces one behind the other.
std::uint64_t checksum_of(std::span<const std::span<const std::byte>> pieces);

/// The first bytes of a file, and where its index lies.
struct packed_header {
  static constexpr std::size_t num_bytes = 64;

  std::uint64_t index_offset = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t index_checksum = 0;
  std::uint64_t file_bytes = 0;
  /// Of the program that wrote the file.
  std::uint32_t arithmetic_revision = kernels::arithmetic_revision;

  std::array<std::byte, num_bytes> encode() const;

  /// @errors  model_error: another kind of file, another version or arithmetic revision, damaged, or not as
  ///          long as it says
  static packed_header decode(std::span<const std::byte> file, const std::string& file_name);
};

/// The index as JSON.
std::string encode(const packed_index& index);

/// Parses and checks everything that can be checked without the extents: names, sizes that agree with kinds
/// and shapes, extents inside the file and apart from one another.
/// @errors  model_error that names the file and the extent
packed_index decode_index(std::string_view json, std::uint64_t index_offset, const std::string& file_name);

/// What an extent is called.
std::string expert_extent_name(std::size_t layer, std::size_t expert);
std::string matrix_extent_name(std::span<const std::string> tensors);

} // namespace troupe::model
