#include "kernels/model/cpu_weights.hpp"

#include "kernels/error.hpp"
#include "kernels/model/required_tensors.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/quantize.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::model {

namespace {

/// Quantizes rows to int8 with a scale each; the scales follow all rows.
void quantize_embeddings(const tensor_ref& tensor, embedding_rows& out) {
  const auto vocab = tensor.shape.front();
  const auto hidden = tensor.shape.back();
  const auto stride = embedding_stride(kernels::dtype::int8, hidden);
  out.storage = kernels::buffer(embedding_bytes(kernels::dtype::int8, vocab, hidden));
  auto* scales = reinterpret_cast<float*>(out.storage.data() + vocab * stride);
  const auto row_bytes = hidden * element_bytes(tensor.type);
  for (std::size_t r = 0; r < vocab; ++r) {
    const auto values = to_floats({tensor.type, {}, tensor.data + r * row_bytes, row_bytes});
    scales[r] =
        kernels::quantize_int8(values, reinterpret_cast<std::int8_t*>(out.storage.data() + r * stride));
  }
  out.rows = {out.storage.data(), kernels::dtype::int8, vocab, hidden, stride};
  out.scales = scales;
}

/// Rows are looked up, not multiplied, so they stay as stored, except that a bf16 model holds only bf16
/// values.
void copy_embeddings(const tensor_ref& tensor, kernels::dtype model_type, embedding_rows& out) {
  const auto vocab = tensor.shape.front();
  const auto hidden = tensor.shape.back();
  const auto bf16 = model_type == kernels::dtype::bf16;
  const auto type = bf16 ? kernels::dtype::bf16 : to_dtype(tensor.type);
  const auto stride = embedding_stride(type, hidden);
  out.storage = kernels::buffer(embedding_bytes(type, vocab, hidden));
  out.rows = {out.storage.data(), type, vocab, hidden, stride};
  const auto row_bytes = hidden * element_bytes(tensor.type);
  for (std::size_t r = 0; r < vocab; ++r) {
    const auto* from = tensor.data + r * row_bytes;
    auto* to = out.storage.data() + kernels::bytes_of(type, r * stride);
    if (type == to_dtype(tensor.type)) {
      std::memcpy(to, from, row_bytes);
      continue;
    }
    const auto values = to_floats({tensor.type, {}, from, row_bytes});
    std::transform(values.begin(), values.end(), reinterpret_cast<kernels::bfloat16*>(to),
                   kernels::to_bfloat16);
  }
}

} // namespace

std::size_t embedding_rows::num_bytes() const noexcept {
  return kernels::bytes_of(rows.type, rows.rows * rows.row_stride)
         + (scales == nullptr ? 0 : rows.rows * sizeof(float));
}

std::size_t cpu_weights::largest_expert(std::size_t layer) const {
  return shapes_of_mlp(expert_format(quant(), type()), expert_tensors(config(), layer, 0)).bytes();
}

/// Integer sums of int8 rows have 32 bits, which bounds the length of matrices.
void cpu_weights::check_integer_sums() const {
  if (quant().rows != kernels::row_quant::int8)
    return;
  const auto check = [&](kernels::packed_format format, std::size_t inputs, const std::string& what) {
    if (const auto most = kernels::most_inputs_of_int8_rows(format); inputs > most)
      throw model_error("int8 activations: " + what + " has " + std::to_string(inputs)
                        + " inputs, and sums with " + kernels::name_of(format) + " weights hold "
                        + std::to_string(most) + ": leave activations as they are for this model");
  };
  const auto experts = expert_format(quant(), type());
  const auto dense = dense_format(quant(), type());
  check(dense, config().hidden, "the LM head");
  for (std::size_t i = 0; i < config().num_layers(); ++i) {
    const auto name = "layer " + std::to_string(i) + ": ";
    for (const auto& op : config().layers[i].operations)
      if (const auto* project = std::get_if<project_op>(&op))
        check(format_of(project->matrix, quant(), type()), project->matrix.inputs(),
              "'" + project->matrix.parts.front().name + "'");
      else if (const auto* mlp = std::get_if<feed_forward_op>(&op))
        check(dense, mlp->mlp.intermediate(), "'" + mlp->mlp.down.name + "'");
      else if (const auto* route = std::get_if<route_op>(&op)) {
        check(experts, route->experts.hidden, name + "an expert");
        check(experts, route->experts.intermediate, name + "an expert's down projection");
      }
  }
}

cpu_weights::cpu_weights(model_config config, kernels::dtype type, const quantization& quant)
    : weight_source(std::move(config), type, quant) {
  check_integer_sums();
}

void cpu_weights::finish(kernels::expert_weights& weights, const mlp_ref& ref,
                         std::vector<float> biases) const {
  finish(weights.gate_up);
  finish(weights.down);
  weights.act = ref.act;
  weights.act_limit = ref.act_limit;
  weights.biases = std::move(biases);
  if (!weights.biases.empty()) {
    weights.gate_bias = weights.biases.data();
    weights.up_bias = ref.up ? weights.gate_bias + ref.intermediate() : nullptr;
    weights.down_bias = weights.gate_bias + (ref.num_matrices() - 1) * ref.intermediate();
  }
}

kernels::expert_weights cpu_weights::assemble(std::size_t layer, kernels::packed_matrix gate_up,
                                              kernels::packed_matrix down, std::vector<float> biases) const {
  kernels::expert_weights result;
  result.gate_up = std::move(gate_up);
  result.down = std::move(down);
  finish(result, expert_tensors(config(), layer, 0), std::move(biases));
  return result;
}

checkpoint_source::checkpoint_source(std::shared_ptr<const tensor_source> tensors, kernels::isa set,
                                     weight_coding coding)
    : cpu_weights(tensors->config(), tensors->type(), tensors->quant()),
      tensors_(std::move(tensors)),
      set_(set),
      coding_(coding) {
  if (type() != kernels::dtype::bf16
      || (quant().experts != expert_quant::none && quant().dense != dense_quant::none))
    coding_ = weight_coding::none;
}

checkpoint_source::checkpoint_source(std::shared_ptr<const checkpoint> weights, model_config config,
                                     kernels::dtype type, const quantization& quant, kernels::isa set,
                                     weight_coding coding)
    : checkpoint_source(
        std::make_shared<const tensor_source>(std::move(weights), std::move(config), type, quant), set,
        coding) {}

void checkpoint_source::code(kernels::packed_matrix& matrix) const {
  if (coding_ == weight_coding::none || matrix.format() != kernels::packed_format::bf16_pair)
    return;
  if (auto coded = kernels::packed_matrix::code(matrix))
    matrix = std::move(*coded);
}

// Both or neither: a file has one format for them.
void checkpoint_source::code(kernels::expert_weights& weights) const {
  if (coding_ == weight_coding::none || weights.gate_up.format() != kernels::packed_format::bf16_pair)
    return;
  auto gate_up = kernels::packed_matrix::code(weights.gate_up);
  auto down = gate_up ? kernels::packed_matrix::code(weights.down) : std::nullopt;
  if (!down)
    return;
  weights.gate_up = std::move(*gate_up);
  weights.down = std::move(*down);
}

template <class Pack>
auto checkpoint_source::packed(const std::string& name, const Pack& pack) const {
  try {
    return pack();
  } catch (const kernels::kernel_error& error) {
    throw model_error(tensors_->folder().string() + ": '" + name + "': " + error.what());
  }
}

kernels::packed_matrix checkpoint_source::matrix(const matrix_ref& ref) const {
  std::vector<tensor_ref> parts;
  for (const auto& part : ref.parts)
    parts.push_back(tensors_->read(part.name));
  auto result =
      packed(ref.parts.front().name, [&] { return pack_rows(format_of(ref, quant(), type()), parts, set_); });
  for (const auto& part : parts)
    release_pages({part.data, part.num_bytes});
  // A head is a part: its product needs one format for all heads, and coding decides for each alone.
  if (ref.storage == matrix_storage::quantizable && !ref.parts.front().is_part)
    code(result);
  finish(result);
  return result;
}

kernels::expert_weights checkpoint_source::mlp(const mlp_ref& ref, kernels::packed_format format) const {
  const auto& gate = tensors_->read(ref.gate.name);
  const auto* up = ref.up ? &tensors_->read(ref.up->name) : nullptr;
  const auto& down = tensors_->read(ref.down.name);
  auto result = packed(ref.name, [&] { return pack_mlp(format, gate, up, down, set_); });
  code(result);
  std::vector<float> biases;
  for (const auto& bias : ref.biases) {
    const auto values = tensors_->floats(bias.name);
    biases.insert(biases.end(), values.begin(), values.end());
  }
  finish(result, ref, std::move(biases));
  return result;
}

kernels::expert_weights checkpoint_source::mlp(const mlp_ref& ref) const {
  return mlp(ref, dense_format(quant(), type()));
}

embedding_rows checkpoint_source::embeddings() const {
  const auto& tensor = tensors_->read(config().embeddings.name);
  embedding_rows result;
  if (quant().dense != dense_quant::none)
    quantize_embeddings(tensor, result);
  else
    copy_embeddings(tensor, type(), result);
  release_pages({tensor.data, tensor.num_bytes});
  return result;
}

kernels::expert_weights checkpoint_source::expert(std::size_t layer, std::size_t expert) const {
  return mlp(expert_tensors(config(), layer, expert), expert_format(quant(), type()));
}

std::size_t embedding_stride(kernels::dtype type, std::size_t hidden) {
  const auto per_line = std::size_t{64} * 8 / kernels::bits_of(type);
  return (hidden + per_line - 1) / per_line * per_line;
}

std::size_t embedding_bytes(kernels::dtype type, std::size_t vocab, std::size_t hidden) {
  return kernels::bytes_of(type, vocab * embedding_stride(type, hidden))
         + (type == kernels::dtype::int8 ? vocab * sizeof(float) : 0);
}

mlp_shapes shapes_of_mlp(kernels::packed_format format, const mlp_ref& ref) {
  const auto ffn = ref.intermediate();
  const auto hidden = ref.gate.shape.back();
  const auto firsts = ref.num_matrices() - 1;
  return {.gate_up = {format, ffn, hidden, firsts},
          .down = {format, hidden, ffn, 1},
          .num_biases = ref.biases.empty() ? 0 : firsts * ffn + hidden};
}

kernels::packed_format expert_format(const quantization& quant, kernels::dtype type) {
  switch (quant.experts) {
  case expert_quant::none:
    break;
  case expert_quant::int8:
    return kernels::packed_format::int8_channel;
  case expert_quant::int4_group32:
    return kernels::packed_format::int4_group32;
  case expert_quant::int4_group64:
    return kernels::packed_format::int4_group64;
  case expert_quant::int4_channel:
    return kernels::packed_format::int4_channel;
  }
  return kernels::format_for(type);
}

kernels::packed_format dense_format(const quantization& quant, kernels::dtype type) {
  switch (quant.dense) {
  case dense_quant::none:
    break;
  case dense_quant::int8:
    return kernels::packed_format::int8_channel;
  case dense_quant::int4_group32:
    return kernels::packed_format::int4_group32;
  }
  return kernels::format_for(type);
}

kernels::packed_format format_of(const matrix_ref& ref, const quantization& quant, kernels::dtype type) {
  switch (ref.storage) {
  case matrix_storage::quantizable:
    break;
  case matrix_storage::plain:
    return kernels::format_for(type);
  case matrix_storage::exact:
    return kernels::format_for(kernels::dtype::f32);
  }
  return dense_format(quant, type);
}

} // namespace troupe::model
