#include "kernels/model/packed_source.hpp"

#include "kernels/coded_bf16.hpp"
#include "kernels/model/required_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace troupe::model {

namespace {

/// BF16 may be stored coded.
kernels::packed_format stored_format(const packed_extent& extent, kernels::packed_format wanted) {
  constexpr auto coded = kernels::packed_format::bf16_coded;
  return wanted == kernels::packed_format::bf16_pair && extent.format == kernels::name_of(coded) ? coded
                                                                                                 : wanted;
}

} // namespace

std::shared_ptr<const packed_source> packed_source::open(const std::filesystem::path& path,
                                                         model_config config, kernels::row_quant rows,
                                                         weight_memory memory, damaged_file damaged) {
  mapped_file file(path);
  if (memory == weight_memory::mapped)
    file.advise_huge_pages();
  const auto bytes = file.bytes();
  const auto header = packed_header::decode(bytes, path.string());
  const auto index_bytes = bytes.subspan(header.index_offset, header.index_bytes);
  if (checksum_of(index_bytes) != header.index_checksum)
    throw model_error(path.string() + ": the index is damaged");
  auto index = decode_index({reinterpret_cast<const char*>(index_bytes.data()), index_bytes.size()},
                            header.index_offset, path.string());
  if (index.config_checksum != checksum_of(config.canonical_json))
    throw model_error(path.string() + ": config.json is not the one that these weights were packed with");
  return std::shared_ptr<const packed_source>(
      new packed_source(std::move(file), std::move(index), std::move(config), rows, memory, damaged));
}

std::shared_ptr<const packed_source> packed_source::open_part(const std::filesystem::path& path,
                                                              packed_index index, model_config config) {
  return std::shared_ptr<const packed_source>(new packed_source(mapped_file{path}, std::move(index),
                                                                std::move(config), kernels::row_quant::none,
                                                                weight_memory::copied, damaged_file::kept));
}

packed_source::packed_source(mapped_file file, packed_index index, model_config config,
                             kernels::row_quant rows, weight_memory memory, damaged_file damaged)
    : cpu_weights(std::move(config), index.type, {index.quant.experts, index.quant.dense, rows}),
      file_(std::move(file)),
      memory_(memory),
      damaged_(damaged),
      fingerprint_(std::move(index.fingerprint)) {
  for (auto& extent : index.extents) {
    auto name = extent.name;
    extents_.emplace(std::move(name), std::move(extent));
  }
}

std::string packed_source::description() const {
  return "packed in " + file_.path().string();
}

void packed_source::fail(const std::string& extent, const std::string& what) const {
  const std::string message = file_.path().string() + ": extent '" + extent + "' " + what;
  std::error_code error;
  if (damaged_ == damaged_file::removed) {
    // All workers of a host map the same file: another one may have found the damage first, and the next
    // start may have written a good file there.
    if (file_.is_replaced())
      throw cache_damaged(message + "; another file has taken its place, and the next start uses that");
    std::filesystem::remove(file_.path(), error);
    if (!error)
      throw cache_damaged(message + "; the file has been removed, and the next start writes it again");
  }
  throw model_error(message);
}

const packed_extent& packed_source::find(const std::string& name) const {
  const auto found = extents_.find(name);
  if (found == extents_.end())
    fail(name, "is missing");
  return found->second;
}

std::span<const std::byte> packed_source::bytes_of(const packed_extent& extent) const {
  return file_.bytes().subspan(extent.offset, extent.num_bytes);
}

std::span<const std::byte> packed_source::read(const packed_extent& extent, extent_kind kind,
                                               std::string_view format,
                                               std::span<const std::size_t> shape) const {
  if (extent.kind != kind || extent.format != format
      || !std::equal(shape.begin(), shape.end(), extent.shape.begin(), extent.shape.end()))
    fail(extent.name, "is not what config.json asks for");
  const auto bytes = bytes_of(extent);
  if (!populate_pages(bytes))
    fail(extent.name, "cannot be read: the file has been cut short since it was opened, or its disk fails");
  if (checksum_of(bytes) != extent.checksum)
    fail(extent.name,
         std::string{"is damaged: its checksum differs"}
             + (file_.is_written_to() ? "; the file has been written to since it was opened" : ""));
  return bytes;
}

kernels::packed_matrix packed_source::place(const packed_extent& extent, const kernels::packed_shape& shape,
                                            std::span<const std::byte> bytes) const {
  auto mapped = kernels::packed_matrix::view(shape, bytes);
  if (shape.format == kernels::packed_format::bf16_coded)
    for (std::size_t panel = 0; panel < shape.panels(); ++panel)
      if (!kernels::has_valid_exceptions(mapped.panel(panel), shape.padded_inputs() / 32))
        fail(extent.name, "has a panel whose exceptions make no sense");
  if (memory_ == weight_memory::mapped)
    return mapped;
  auto result = kernels::packed_matrix::copy(shape, bytes);
  release_pages(bytes);
  return result;
}

std::vector<float> packed_source::floats(const tensor_requirement& tensor) const {
  // Shapes of vectors may contain ones: a gate is [1, hidden].
  std::size_t count = 1;
  for (const auto dim : tensor.shape)
    count *= dim;
  const auto bytes = read(find(tensor.name), extent_kind::vector, "f32", {&count, 1});
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

kernels::packed_matrix packed_source::matrix(const matrix_ref& ref) const {
  const auto& extent = find(matrix_extent_name(ref));
  const auto wanted = format_of(ref, quant(), type());
  const auto format = ref.storage == matrix_storage::quantizable ? stored_format(extent, wanted) : wanted;
  const std::size_t shape[] = {ref.outputs(), ref.inputs()};
  auto result = place(extent, {format, shape[0], shape[1], 1},
                      read(extent, extent_kind::matrix, kernels::name_of(format), shape));
  finish(result);
  return result;
}

kernels::expert_weights packed_source::read_mlp(const std::string& name, kernels::packed_format wanted,
                                                const mlp_ref& ref) const {
  const auto& extent = find(name);
  const auto format = stored_format(extent, wanted);
  const auto shapes = shapes_of_mlp(format, ref);
  std::vector<std::size_t> shape{ref.intermediate(), config().hidden};
  if (shapes.num_biases != 0)
    shape.push_back(shapes.num_biases);
  const auto kind = ref.up ? extent_kind::mlp : extent_kind::ungated_mlp;
  const auto bytes = read(extent, kind, kernels::name_of(format), shape);
  const auto num_matrix_bytes = shapes.gate_up.bytes() + shapes.down.bytes();
  std::vector<float> biases(shapes.num_biases);
  std::ranges::copy(bytes.subspan(num_matrix_bytes, biases.size() * sizeof(float)),
                    std::as_writable_bytes(std::span{biases}).begin());
  kernels::expert_weights result;
  result.gate_up = place(extent, shapes.gate_up, bytes.first(shapes.gate_up.bytes()));
  result.down = place(extent, shapes.down, bytes.subspan(shapes.gate_up.bytes(), shapes.down.bytes()));
  finish(result, ref, std::move(biases));
  return result;
}

kernels::expert_weights packed_source::mlp(const mlp_ref& ref) const {
  return read_mlp(ref.name, dense_format(quant(), type()), ref);
}

kernels::expert_weights packed_source::expert(std::size_t layer, std::size_t expert) const {
  return read_mlp(expert_extent_name(layer, expert), expert_format(quant(), type()),
                  expert_tensors(config(), layer, expert));
}

std::span<const std::byte> packed_source::expert_bytes(std::size_t layer, std::size_t expert) const {
  return bytes_of(find(expert_extent_name(layer, expert)));
}

std::size_t packed_source::largest_expert(std::size_t layer) const {
  std::size_t largest = 0;
  for (std::size_t expert = 0; expert < config().layers.at(layer).moe()->num_experts; ++expert)
    largest = std::max<std::size_t>(largest, find(expert_extent_name(layer, expert)).num_bytes);
  return largest;
}

void packed_source::forget(std::size_t layer, std::size_t expert) const noexcept {
  if (const auto found = extents_.find(expert_extent_name(layer, expert)); found != extents_.end())
    release_pages(bytes_of(found->second));
}

embedding_rows packed_source::embeddings() const {
  const auto& extent = find("embeddings");
  // Rows are padded to cache lines. Their type may be the checkpoint's if the model computes in f32.
  const auto& shape = extent.shape;
  const std::size_t expected[] = {config().vocab_size, config().hidden, shape.size() == 3 ? shape[2] : 0};
  const auto bytes = read(extent, extent_kind::embeddings, extent.format, expected);
  embedding_rows result;
  const std::byte* data = bytes.data();
  if (memory_ == weight_memory::copied) {
    result.storage = kernels::buffer(bytes.size());
    std::memcpy(result.storage.data(), bytes.data(), bytes.size());
    release_pages(bytes);
    data = result.storage.data();
  }
  auto row_type = kernels::dtype::f32;
  for (const auto candidate : {kernels::dtype::bf16, kernels::dtype::f16, kernels::dtype::int8})
    if (extent.format == kernels::name_of(candidate))
      row_type = candidate;
  if ((row_type == kernels::dtype::int8) != (quant().dense != dense_quant::none))
    fail(extent.name, "is not what the file says of itself");
  result.rows = {data, row_type, config().vocab_size, config().hidden, shape[2]};
  if (row_type == kernels::dtype::int8)
    result.scales = reinterpret_cast<const float*>(data + config().vocab_size * shape[2]);
  return result;
}

} // namespace troupe::model
