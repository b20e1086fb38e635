#pragma once

#include "kernels/model/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::model {

/// Element types a weight may have on disk; `other` are those that no weight may have, in tensors that a
/// model may carry but nobody reads.
enum class storage_dtype : std::uint8_t { float32, float16, bfloat16, other };

/// Of a type that weights may have.
constexpr std::size_t element_bytes(storage_dtype type) noexcept {
  return type == storage_dtype::float32 ? 4 : 2;
}

/// As safetensors spells it: "F32", "F16", "BF16".
std::string_view to_string(storage_dtype type) noexcept;

/// One tensor of a file: row-major, little-endian, `begin`..`end` bytes from the start of the file.
struct tensor_entry {
  std::string name;
  storage_dtype type = storage_dtype::float32;
  std::string type_name; // as the file spells it
  std::vector<std::size_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Parses the header of a safetensors file: 8 bytes of length, that many bytes of JSON, then the data.
///
/// @param file       the whole file
/// @param file_name  how to call it in messages
/// @returns the tensors in the order of their data
/// @errors  model_error that names the file, the tensor, and expected against found: a header longer than the
/// file or
///          100 MB, bad JSON, duplicate names, offsets that overlap, leave gaps, disagree with shape and a
///          dtype of the format's list, or pass the end of the file, and a file longer than its tensors
std::vector<tensor_entry> parse_safetensors(std::span<const std::byte> file, const std::string& file_name);

} // namespace troupe::model
