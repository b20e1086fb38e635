#include "kernels/model/packed_format.hpp"

#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/error.hpp"
#include "kernels/model/hex.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>
#include <xxhash.h>

namespace troupe::model {

namespace {

constexpr std::string_view magic = "TROUPEPK";
constexpr std::size_t max_dimension = std::size_t{1} << 31;
constexpr std::size_t max_index_bytes = std::size_t{256} << 20;

// Offsets of the header's fields; all numbers are little-endian.
constexpr std::size_t version_at = 8;
constexpr std::size_t revision_at = 12;
constexpr std::size_t index_offset_at = 16;
constexpr std::size_t index_bytes_at = 24;
constexpr std::size_t index_checksum_at = 32;
constexpr std::size_t file_bytes_at = 40;
constexpr std::size_t header_checksum_at = 56;

template <class T>
void put(std::span<std::byte> bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(std::to_integer<std::uint8_t>(bytes[at + i])) << (8 * i));
  return value;
}

std::optional<std::uint64_t> from_hex(const std::string& text) {
  std::uint64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || error != std::errc{} || last != end)
    return std::nullopt;
  return value;
}

template <class Enum, class Name>
std::optional<Enum> find_by_name(std::string_view text, Enum last, const Name& name) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (text == name(static_cast<Enum>(i)))
      return static_cast<Enum>(i);
  return std::nullopt;
}

std::optional<kernels::packed_format> format_from(std::string_view text) {
  return find_by_name(text, kernels::last_packed_format,
                      [](kernels::packed_format format) { return kernels::name_of(format); });
}

std::optional<kernels::dtype> dtype_from(std::string_view text) {
  return find_by_name(text, kernels::dtype::int8, [](kernels::dtype type) { return kernels::name_of(type); });
}

/// The size for kind, format and shape; empty if they are inconsistent.
std::optional<std::uint64_t> expected_bytes(const packed_extent& extent) {
  const auto& shape = extent.shape;
  for (const auto dim : shape)
    if (dim == 0 || dim > max_dimension)
      return std::nullopt;
  switch (extent.kind) {
  case extent_kind::vector:
    if (shape.size() != 1 || extent.format != "f32")
      return std::nullopt;
    return shape[0] * sizeof(float);
  case extent_kind::matrix:
  case extent_kind::mlp:
  case extent_kind::ungated_mlp: {
    const auto format = format_from(extent.format);
    const bool has_biases = extent.kind != extent_kind::matrix && shape.size() == 3;
    // The product of two dimensions fits 62 bits, times at most 12 bytes: close enough to be checked here.
    if (!format || (shape.size() != 2 && !has_biases)
        || shape[0] > std::numeric_limits<std::uint32_t>::max() / shape[1] * 4096)
      return std::nullopt;
    if (extent.kind == extent_kind::matrix)
      return kernels::packed_shape{*format, shape[0], shape[1], 1}.bytes();
    const auto num_biases = has_biases ? shape[2] : 0;
    const std::size_t firsts = extent.kind == extent_kind::mlp ? 2 : 1;
    if (has_biases && num_biases != firsts * shape[0] + shape[1])
      return std::nullopt;
    return kernels::packed_shape{*format, shape[0], shape[1], firsts}.bytes()
           + kernels::packed_shape{*format, shape[1], shape[0], 1}.bytes() + num_biases * sizeof(float);
  }
  case extent_kind::embeddings: {
    const auto type = dtype_from(extent.format);
    if (!type || shape.size() != 3 || shape[2] < shape[1] || shape[2] > shape[1] + 64)
      return std::nullopt;
    return kernels::bytes_of(*type, shape[0] * shape[2])
           + (*type == kernels::dtype::int8 ? shape[0] * sizeof(float) : 0);
  }
  }
  return std::nullopt;
}

/// Checked, because negative numbers and fractions would be cast silently.
std::uint64_t natural(const nlohmann::json& number, const packed_extent& extent) {
  if (!number.is_number_unsigned())
    throw model_error("extent '" + extent.name
                      + "': shape, offset and bytes must be whole numbers from 0 on");
  return number.get<std::uint64_t>();
}

nlohmann::ordered_json json_of(const packed_extent& extent) {
  return {{"name", extent.name},
          {"kind", name_of(extent.kind)},
          {"format", extent.format},
          {"shape", extent.shape},
          {"offset", extent.offset},
          {"bytes", extent.num_bytes},
          {"checksum", hex_of(extent.checksum)}};
}

packed_extent extent_of(const nlohmann::json& entry) {
  packed_extent extent;
  extent.name = entry.at("name").get<std::string>();
  const auto kind = find_by_name(entry.at("kind").get<std::string>(), extent_kind::embeddings,
                                 [](extent_kind k) { return name_of(k); });
  if (!kind)
    throw model_error("extent '" + extent.name + "': unknown kind");
  extent.kind = *kind;
  extent.format = entry.at("format").get<std::string>();
  for (const auto& dim : entry.at("shape"))
    extent.shape.push_back(natural(dim, extent));
  extent.offset = natural(entry.at("offset"), extent);
  extent.num_bytes = natural(entry.at("bytes"), extent);
  const auto checksum = from_hex(entry.at("checksum").get<std::string>());
  if (!checksum)
    throw model_error("extent '" + extent.name + "': checksum is not 16 hexadecimal digits");
  extent.checksum = *checksum;
  if (expected_bytes(extent) != extent.num_bytes)
    throw model_error("extent '" + extent.name + "': " + std::to_string(extent.num_bytes)
                      + " bytes do not agree with its kind, format and shape");
  return extent;
}

void check_places(const std::vector<packed_extent>& extents, std::uint64_t index_offset) {
  std::vector<const packed_extent*> in_order;
  std::unordered_set<std::string_view> names;
  for (const auto& extent : extents) {
    if (!names.insert(extent.name).second)
      throw model_error("extent '" + extent.name + "' is listed twice");
    in_order.push_back(&extent);
  }
  std::sort(in_order.begin(), in_order.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  std::uint64_t end = packed_header::num_bytes;
  for (const auto* extent : in_order) {
    if (extent->offset % extent_alignment != 0 || extent->offset < end || extent->offset > index_offset
        || extent->num_bytes > index_offset - extent->offset)
      throw model_error("extent '" + extent->name + "' at byte " + std::to_string(extent->offset)
                        + " is not aligned, not inside the file or overlaps another");
    end = extent->offset + extent->num_bytes;
  }
}

} // namespace

std::string_view name_of(extent_kind kind) noexcept {
  switch (kind) {
  case extent_kind::vector:
    return "vector";
  case extent_kind::matrix:
    return "matrix";
  case extent_kind::mlp:
    return "mlp";
  case extent_kind::ungated_mlp:
    return "ungated-mlp";
  case extent_kind::embeddings:
    return "embeddings";
  }
  return "?";
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum_of(std::string_view text) noexcept {
  return XXH3_64bits(text.data(), text.size());
}

std::uint64_t checksum_of(std::span<const std::span<const std::byte>> pieces) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state{XXH3_createState(), &XXH3_freeState};
  if (state == nullptr)
    throw std::bad_alloc{};
  XXH3_64bits_reset(state.get());
  for (const auto& piece : pieces)
    XXH3_64bits_update(state.get(), piece.data(), piece.size());
  return XXH3_64bits_digest(state.get());
}

std::array<std::byte, packed_header::num_bytes> packed_header::encode() const {
  std::array<std::byte, num_bytes> bytes{};
  std::memcpy(bytes.data(), magic.data(), magic.size());
  put(bytes, version_at, packed_file_version);
  put(bytes, revision_at, arithmetic_revision);
  put(bytes, index_offset_at, index_offset);
  put(bytes, index_bytes_at, index_bytes);
  put(bytes, index_checksum_at, index_checksum);
  put(bytes, file_bytes_at, file_bytes);
  put(bytes, header_checksum_at, checksum_of(std::span<const std::byte>(bytes).first(header_checksum_at)));
  return bytes;
}

packed_header packed_header::decode(std::span<const std::byte> file, const std::string& file_name) {
  if (file.size() < magic.size() || std::memcmp(file.data(), magic.data(), magic.size()) != 0)
    throw model_error(file_name + ": not a packed weight file");
  if (file.size() < num_bytes)
    throw model_error(file_name + ": truncated: " + std::to_string(file.size()) + " bytes");
  if (const auto version = get<std::uint32_t>(file, version_at); version != packed_file_version)
    throw model_error(file_name + ": format version " + std::to_string(version)
                      + ", this program reads version " + std::to_string(packed_file_version)
                      + ": pack the model again");
  if (get<std::uint64_t>(file, header_checksum_at) != checksum_of(file.first(header_checksum_at)))
    throw model_error(file_name + ": the header is damaged");
  const packed_header header{get<std::uint64_t>(file, index_offset_at),
                             get<std::uint64_t>(file, index_bytes_at),
                             get<std::uint64_t>(file, index_checksum_at),
                             get<std::uint64_t>(file, file_bytes_at), get<std::uint32_t>(file, revision_at)};
  if (header.arithmetic_revision != kernels::arithmetic_revision)
    throw model_error(file_name + ": packed with arithmetic revision "
                      + std::to_string(header.arithmetic_revision) + ", this program has revision "
                      + std::to_string(kernels::arithmetic_revision) + ": pack the model again");
  if (header.file_bytes != file.size())
    throw model_error(file_name + ": truncated or grown: " + std::to_string(file.size()) + " bytes, "
                      + std::to_string(header.file_bytes) + " were written");
  if (header.index_offset > file.size() || header.index_bytes > file.size() - header.index_offset
      || header.index_bytes > max_index_bytes)
    throw model_error(file_name + ": the index lies outside the file");
  return header;
}

std::string encode(const packed_extent& extent) {
  return json_of(extent).dump();
}

packed_extent decode_extent(std::string_view json) {
  try {
    return extent_of(nlohmann::json::parse(json));
  } catch (const nlohmann::json::exception& error) {
    throw model_error("extent: " + std::string{error.what()}.substr(0, 200));
  }
}

std::string encode(const packed_index& index) {
  nlohmann::ordered_json json;
  json["fingerprint"] = index.fingerprint;
  json["config_checksum"] = hex_of(index.config_checksum);
  json["dtype"] = kernels::name_of(index.type);
  json["experts"] = quantization{index.quant.experts}.stored_name();
  json["dense"] = name_of(index.quant.dense);
  json["extents"] = nlohmann::ordered_json::array();
  for (const auto& extent : index.extents)
    json["extents"].push_back(json_of(extent));
  return json.dump();
}

packed_index decode_index(std::string_view json, std::uint64_t index_offset, const std::string& file_name) {
  packed_index index;
  try {
    const auto parsed = nlohmann::json::parse(json);
    index.fingerprint = parsed.at("fingerprint").get<std::string>();
    const auto checksum = from_hex(parsed.at("config_checksum").get<std::string>());
    const auto type = dtype_from(parsed.at("dtype").get<std::string>());
    const auto experts = find_by_name(parsed.at("experts").get<std::string>(), last_expert_quant,
                                      [](expert_quant quant) { return quantization{quant}.stored_name(); });
    const auto dense = find_by_name(parsed.at("dense").get<std::string>(), last_dense_quant,
                                    [](dense_quant quant) { return std::string{name_of(quant)}; });
    if (!checksum || !type || (type != kernels::dtype::f32 && type != kernels::dtype::bf16) || !experts
        || !dense)
      throw model_error("unknown dtype or quantization");
    index.config_checksum = *checksum;
    index.type = *type;
    index.quant = {*experts, *dense, kernels::row_quant::none};
    for (const auto& entry : parsed.at("extents"))
      index.extents.push_back(extent_of(entry));
    check_places(index.extents, index_offset);
  } catch (const model_error& error) {
    throw model_error(file_name + ": index: " + error.what());
  } catch (const nlohmann::json::exception& error) {
    throw model_error(file_name + ": index: " + std::string{error.what()}.substr(0, 200));
  }
  return index;
}

std::string expert_extent_name(std::size_t layer, std::size_t expert) {
  return "layers." + std::to_string(layer) + ".experts." + std::to_string(expert);
}

std::string matrix_extent_name(const matrix_ref& matrix) {
  std::string name;
  for (const auto& part : matrix.parts)
    name += (name.empty() ? "" : "+") + part.name;
  return name;
}

} // namespace troupe::model
