// Parses the headers of safetensors files.
#pragma once

#include "kernels/model/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::model {

/// Element types of weights on disk; `other` are all types that weights may not have, of tensors that are not
/// used.
enum class storage_dtype : std::uint8_t { float32, float16, bfloat16, other };

/// Size for the types of weights.
constexpr std::size_t element_bytes(storage_dtype type) noexcept {
  return type == storage_dtype::float32 ? 4 : 2;
}

/// In safetensors' spelling: "F32", "F16", "BF16".
std::string_view to_string(storage_dtype type) noexcept;

/// One tensor of a file: row-major, little-endian, `begin`..`end` bytes from the start of the file.
struct tensor_entry {
  std::string name;
  storage_dtype type = storage_dtype::float32;
  std::string type_name; // in the file's spelling
  std::vector<std::size_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Size of a safetensors file's length field and header.
///
/// @param start       the file's first bytes, at least 8 if it has as many
/// @param file_bytes  its size
/// @throws model_error naming the file: a header longer than the file or 100 MB
std::size_t safetensors_header_bytes(std::span<const std::byte> start, std::uint64_t file_bytes,
                                     const std::string& file_name);

/// Parses the header of a safetensors file: 8 bytes of length, that many bytes of JSON, then the data.
///
/// @param start       the file's first bytes, at least `safetensors_header_bytes`
/// @param file_bytes  its size
/// @param file_name   its name in messages
/// @returns the tensors in the order of their data
/// @throws model_error naming the file, the tensor, and expected against found: as
/// `safetensors_header_bytes`, bad JSON, duplicate names, offsets that overlap, leave gaps, disagree with
/// shape and a known dtype, or exceed the file, and a file longer than its tensors
std::vector<tensor_entry> parse_safetensors(std::span<const std::byte> start, std::uint64_t file_bytes,
                                            const std::string& file_name);

} // namespace troupe::model
