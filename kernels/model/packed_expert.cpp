#include "kernels/model/packed_expert.hpp"

#include "kernels/arithmetic_revision.hpp"
#include "kernels/coded_bf16.hpp"
#include "kernels/model/error.hpp"
#include "kernels/model/packed_format.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::model {

namespace {

/// Copies between `flat`, which begins at `offset` of two pieces that follow one another, and those pieces.
template <class First, class Second, class Copy>
void for_each_piece(std::size_t offset, std::size_t length, First first, Second second, const Copy& copy) {
  const auto in_first = offset < first.size() ? std::min(length, first.size() - offset) : 0;
  if (in_first > 0)
    copy(first.subspan(offset, in_first), std::size_t{0});
  if (in_first < length)
    copy(second.subspan(offset + in_first - first.size(), length - in_first), in_first);
}

std::uint64_t checksum_of_both(std::span<const std::byte> first, std::span<const std::byte> second) {
  const std::span<const std::byte> pieces[] = {first, second};
  return checksum_of(pieces);
}

kernels::packed_matrix checked(kernels::packed_matrix matrix) {
  const auto& shape = matrix.shape();
  if (shape.format == kernels::packed_format::bf16_coded)
    for (std::size_t panel = 0; panel < shape.panels(); ++panel)
      if (!kernels::has_valid_exceptions(matrix.panel(panel), shape.padded_inputs() / 32))
        throw model_error("an expert that was fetched has a panel whose exceptions make no sense");
  return matrix;
}

} // namespace

std::string expert_layout(const cpu_weights& weights, std::size_t layer, kernels::packed_format format) {
  const auto& config = weights.config();
  const auto* moe = config.layers.at(layer).moe();
  if (moe == nullptr)
    throw model_error("layer " + std::to_string(layer) + " has no experts");
  return std::string{kernels::name_of(format)} + " " + std::to_string(moe->intermediate) + "x"
         + std::to_string(config.hidden) + " v" + std::to_string(packed_file_version) + " r"
         + std::to_string(kernels::arithmetic_revision) + " config "
         + std::to_string(checksum_of(config.canonical_json));
}

packed_expert::packed_expert(std::string layout, std::shared_ptr<const kernels::expert_weights> weights,
                             std::shared_ptr<const cpu_weights> source)
    : layout_(std::move(layout)), source_(std::move(source)), weights_(std::move(weights)) {}

std::size_t packed_expert::num_bytes() const noexcept {
  return weights_->gate_up.bytes().size() + weights_->down.bytes().size();
}

std::uint64_t packed_expert::checksum() const {
  return checksum_of_both(weights_->gate_up.bytes(), weights_->down.bytes());
}

void packed_expert::read(std::size_t offset, std::span<std::byte> out) const {
  for_each_piece(offset, out.size(), weights_->gate_up.bytes(), weights_->down.bytes(),
                 [&](std::span<const std::byte> piece, std::size_t at) {
                   std::memcpy(out.data() + at, piece.data(), piece.size());
                 });
}

arriving_expert::arriving_expert(const cpu_weights& weights, std::size_t layer, const std::string& layout) {
  // Where BF16 is asked for it may be coded: the same values.
  auto format = expert_format(weights.quant(), weights.type());
  const auto wanted = expert_layout(weights, layer, format);
  if (format == kernels::packed_format::bf16_pair
      && layout == expert_layout(weights, layer, kernels::packed_format::bf16_coded))
    format = kernels::packed_format::bf16_coded;
  else if (layout != wanted)
    throw model_error("the expert is laid out as '" + layout.substr(0, 200) + "' there, and as '" + wanted
                      + "' here");
  shapes_ =
      shapes_of_mlp(format, weights.config().hidden, weights.config().layers[layer].moe()->intermediate);
  gate_up_ = kernels::buffer(shapes_.gate_up.bytes());
  down_ = kernels::buffer(shapes_.down.bytes());
}

void arriving_expert::write(std::size_t offset, std::span<const std::byte> bytes) {
  for_each_piece(offset, bytes.size(), gate_up_.bytes(), down_.bytes(),
                 [&](std::span<std::byte> piece, std::size_t at) {
                   std::memcpy(piece.data(), bytes.data() + at, piece.size());
                 });
}

std::uint64_t arriving_expert::checksum() const {
  return checksum_of_both(gate_up_.bytes(), down_.bytes());
}

kernels::expert_weights arriving_expert::assemble(const cpu_weights& weights) {
  return weights.assemble(checked(kernels::packed_matrix::own(shapes_.gate_up, std::move(gate_up_))),
                          checked(kernels::packed_matrix::own(shapes_.down, std::move(down_))));
}

} // namespace troupe::model
