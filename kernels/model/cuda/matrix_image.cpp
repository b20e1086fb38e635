#include "kernels/model/cuda/matrix_image.hpp"

#include "kernels/model/weights.hpp"
#include "kernels/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace troupe::model {

namespace {

using kernels::cuda::weight_format;

/// Rows of a tensor, as floats.
class row_reader {
 public:
  explicit row_reader(const tensor_ref& tensor)
      : type_(tensor.type), rows_(tensor), row_bytes_(tensor.shape.back() * element_bytes(tensor.type)) {}

  std::vector<float> row(std::size_t r) const {
    return to_floats({type_, {}, rows_.view().row(r), row_bytes_});
  }

 private:
  storage_dtype type_;
  weight_rows rows_;
  std::size_t row_bytes_;
};

void copy_bf16(const tensor_ref& tensor, std::byte* out) {
  if (tensor.type == storage_dtype::bfloat16 && tensor.is_dense()) {
    std::memcpy(out, tensor.data, tensor.num_bytes);
    return;
  }
  const row_reader rows(tensor);
  for (std::size_t r = 0; r < tensor.shape.front(); ++r)
    for (const auto value : rows.row(r)) {
      const auto rounded = kernels::to_bfloat16(value);
      std::memcpy(out, &rounded, sizeof rounded);
      out += sizeof rounded;
    }
}

/// A matrix's integers and scales, row by row.
class quantizer {
 public:
  quantizer(const kernels::cuda::weight_shape& shape, device_storage storage, kernels::isa set)
      : shape_(shape),
        storage_(storage),
        set_(set),
        groups_(storage.group == 0 ? 0 : (shape.inputs + storage.group - 1) / storage.group),
        integers_(shape.outputs * shape.inputs),
        group_scales_(shape.outputs * groups_) {}

  void add(const std::vector<float>& row) {
    auto* out = integers_.data() + channel_scales_.size() * shape_.inputs;
    auto* scales = group_scales_.data() + channel_scales_.size() * groups_;
    if (storage_.format == weight_format::int8)
      channel_scales_.push_back(kernels::quantize_int8(row, out));
    else if (groups_ == 0)
      channel_scales_.push_back(kernels::quantize_int4(row, out, set_));
    else
      channel_scales_.push_back(kernels::quantize_int4_groups(row, storage_.group, out, scales, set_));
  }

  matrix_image finish() && {
    matrix_image image{.shape = shape_,
                       .weights = std::vector<std::byte>(shape_.weight_bytes()),
                       .group_scales = std::vector<std::uint32_t>(shape_.group_scale_words()),
                       .channel_scales = std::move(channel_scales_),
                       .bias = {}};
    if (storage_.format == weight_format::int8)
      kernels::cuda::pack_int8(shape_, integers_, image.weights);
    else
      kernels::cuda::pack_int4(shape_, integers_, storage_.group, group_scales_, image.weights,
                               image.group_scales);
    return image;
  }

 private:
  kernels::cuda::weight_shape shape_;
  device_storage storage_;
  kernels::isa set_;
  std::size_t groups_;
  std::vector<std::int8_t> integers_;
  std::vector<std::int8_t> group_scales_;
  std::vector<float> channel_scales_;
};

void add_rows(const tensor_ref& tensor, quantizer& out) {
  const row_reader rows(tensor);
  for (std::size_t r = 0; r < tensor.shape.front(); ++r)
    out.add(rows.row(r));
}

matrix_image pack(std::span<const tensor_ref> parts, device_storage storage, kernels::isa set) {
  kernels::cuda::weight_shape shape{storage.format, 0, 0};
  for (const auto& part : parts) {
    shape.outputs += part.shape.front();
    shape.inputs = part.shape.back();
  }
  if (storage.format != weight_format::bf16) {
    quantizer all(shape, storage, set);
    for (const auto& part : parts)
      add_rows(part, all);
    return std::move(all).finish();
  }
  matrix_image image{.shape = shape,
                     .weights = std::vector<std::byte>(shape.weight_bytes()),
                     .group_scales = {},
                     .channel_scales = {},
                     .bias = {}};
  auto* out = image.weights.data();
  for (const auto& part : parts) {
    copy_bf16(part, out);
    out += part.shape.front() * shape.inputs * sizeof(kernels::bfloat16);
  }
  return image;
}

void release(std::span<const tensor_ref> tensors) {
  for (const auto& tensor : tensors)
    release_pages({tensor.data, tensor.num_bytes});
}

} // namespace

device_storage expert_storage(const quantization& quant) {
  switch (quant.experts) {
  case expert_quant::none:
    break;
  case expert_quant::int8:
    return {weight_format::int8, 0};
  case expert_quant::int4_group32:
    return {weight_format::int4, 32};
  case expert_quant::int4_group64:
    return {weight_format::int4, 64};
  case expert_quant::int4_channel:
    return {weight_format::int4, 0};
  }
  return {};
}

device_storage dense_storage(const quantization& quant) {
  switch (quant.dense) {
  case dense_quant::none:
    break;
  case dense_quant::int8:
    return {weight_format::int8, 0};
  case dense_quant::int4_group32:
    return {weight_format::int4, 32};
  }
  return {};
}

matrix_image pack_matrix(const tensor_source& tensors, std::span<const tensor_requirement> required,
                         device_storage storage, kernels::isa set) {
  std::vector<tensor_ref> parts;
  for (const auto& one : required)
    parts.push_back(tensors.read(one.name));
  auto image = pack(parts, storage, set);
  release(parts);
  return image;
}

matrix_image pack_matrix(const tensor_source& tensors, const matrix_ref& ref, kernels::isa set) {
  auto image = pack_matrix(
      tensors, std::span{ref.parts},
      ref.storage == matrix_storage::quantizable ? dense_storage(tensors.quant()) : device_storage{}, set);
  for (const auto& bias : ref.biases) {
    const auto values = tensors.floats(bias.name);
    image.bias.insert(image.bias.end(), values.begin(), values.end());
  }
  return image;
}

std::vector<matrix_image> pack_mlp(const tensor_source& tensors, const mlp_ref& ref, device_storage storage,
                                   kernels::isa set) {
  std::vector<tensor_ref> read;
  std::vector<matrix_image> images;
  const auto add = [&](const tensor_requirement& tensor) {
    read.push_back(tensors.read(tensor.name));
    auto image = pack({&read.back(), 1}, storage, set);
    if (!ref.biases.empty())
      image.bias = tensors.floats(ref.biases[images.size()].name);
    images.push_back(std::move(image));
  };
  add(ref.gate);
  if (ref.up)
    add(*ref.up);
  add(ref.down);
  release(read); // last: gate and up may share pages
  return images;
}

} // namespace troupe::model
