#include "kernels/model/cpu_weights.hpp"

#include "kernels/error.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/quantize.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::model {

namespace {

constexpr const char* embeddings_name = "model.embed_tokens.weight";

/// Rows as int8 with a scale each, which lie behind all rows.
void quantize_embeddings(const tensor_ref& tensor, embedding_rows& out) {
  const auto vocab = tensor.shape.front();
  const auto hidden = tensor.shape.back();
  const auto stride = (hidden + 63) / 64 * 64;
  out.storage = kernels::buffer(vocab * stride + vocab * sizeof(float));
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

/// Rows are looked up, not multiplied, so they stay as stored, except that a bf16 model holds bf16 values
/// only.
void copy_embeddings(const tensor_ref& tensor, kernels::dtype model_type, embedding_rows& out) {
  const auto vocab = tensor.shape.front();
  const auto hidden = tensor.shape.back();
  const auto bf16 = model_type == kernels::dtype::bf16;
  const auto type = bf16 ? kernels::dtype::bf16 : to_dtype(tensor.type);
  const auto per_line = std::size_t{64} * 8 / kernels::bits_of(type);
  const auto stride = (hidden + per_line - 1) / per_line * per_line;
  out.storage = kernels::buffer(kernels::bytes_of(type, vocab * stride));
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
  return shapes_of_mlp(expert_format(quant(), type()), config().hidden,
                       config().layers.at(layer).moe()->intermediate)
      .bytes();
}

/// Integer sums of int8 rows are 32 bits wide: no matrix may be longer than they hold.
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
    const auto& layer = config().layers[i];
    const auto name = "layer " + std::to_string(i) + ": ";
    check(dense, layer.attention.num_heads * layer.attention.head_dim, name + "attention's output");
    if (const auto* mlp = std::get_if<dense_mlp_spec>(&layer.mlp))
      check(dense, mlp->intermediate, name + "the MLP's down projection");
    if (const auto* moe = layer.moe()) {
      check(experts, config().hidden, name + "an expert");
      check(experts, moe->intermediate, name + "an expert's down projection");
      if (moe->shared)
        check(dense, moe->shared->intermediate, name + "the shared expert's down projection");
    }
  }
}

cpu_weights::cpu_weights(model_config config, kernels::dtype type, const quantization& quant)
    : weight_source(std::move(config), type, quant) {
  check_integer_sums();
}

void cpu_weights::finish(kernels::expert_weights& weights) const {
  finish(weights.gate_up);
  finish(weights.down);
  weights.act = config().activation;
}

kernels::expert_weights cpu_weights::assemble(kernels::packed_matrix gate_up,
                                              kernels::packed_matrix down) const {
  kernels::expert_weights result;
  result.gate_up = std::move(gate_up);
  result.down = std::move(down);
  finish(result);
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

// Both or neither: a file names one format for them.
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

kernels::packed_matrix checkpoint_source::matrix(std::span<const std::string> names, bool plain) const {
  std::vector<tensor_ref> parts;
  for (const auto& name : names)
    parts.push_back(tensors_->read(name));
  auto result = packed(names.front(), [&] {
    return pack_rows(plain ? kernels::format_for(type()) : dense_format(quant(), type()), parts, set_);
  });
  for (const auto& part : parts)
    release_pages({part.data, part.num_bytes});
  if (!plain)
    code(result);
  finish(result);
  return result;
}

kernels::expert_weights checkpoint_source::mlp(const std::string& prefix) const {
  const auto& gate = tensors_->read(prefix + "gate_proj.weight");
  const auto& up = tensors_->read(prefix + "up_proj.weight");
  const auto& down = tensors_->read(prefix + "down_proj.weight");
  auto result = packed(prefix, [&] { return pack_mlp(dense_format(quant(), type()), gate, up, down, set_); });
  code(result);
  finish(result);
  return result;
}

embedding_rows checkpoint_source::embeddings() const {
  const auto& tensor = tensors_->read(embeddings_name);
  embedding_rows result;
  if (quant().dense != dense_quant::none)
    quantize_embeddings(tensor, result);
  else
    copy_embeddings(tensor, type(), result);
  release_pages({tensor.data, tensor.num_bytes});
  return result;
}

kernels::expert_weights checkpoint_source::expert(std::size_t layer, std::size_t expert) const {
  const auto names = expert_tensors(config(), layer, expert);
  const auto& gate = tensors_->read(names.gate);
  const auto& up = tensors_->read(names.up);
  const auto& down = tensors_->read(names.down);
  auto result =
      packed(names.gate, [&] { return pack_mlp(expert_format(quant(), type()), gate, up, down, set_); });
  code(result);
  finish(result);
  return result;
}

mlp_shapes shapes_of_mlp(kernels::packed_format format, std::size_t hidden, std::size_t intermediate) {
  return {{format, intermediate, hidden, 2}, {format, hidden, intermediate, 1}};
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

} // namespace troupe::model
