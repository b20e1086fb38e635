#include "kernels/model/packed_expert.hpp"

#include "kernels/arithmetic_revision.hpp"
#include "kernels/coded_bf16.hpp"
#include "kernels/model/error.hpp"
#include "kernels/model/packed_format.hpp"
#include "kernels/model/required_tensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace troupe::model {

namespace {

/// Calls `copy` for each part of consecutive pieces that lies in `length` bytes from `offset` on, with its
/// place in those.
template <class Pieces, class Copy>
void for_each_piece(std::size_t offset, std::size_t length, const Pieces& pieces, const Copy& copy) {
  std::size_t done = 0;
  for (const auto& piece : pieces) {
    if (const auto count = offset < piece.size() ? std::min(length - done, piece.size() - offset) : 0;
        count > 0) {
      copy(piece.subspan(offset, count), done);
      done += count;
    }
    offset -= std::min(offset, piece.size());
  }
}

using expert_pieces = std::array<std::span<const std::byte>, 3>;

expert_pieces pieces_of(const kernels::expert_weights& weights) {
  return {weights.gate_up.bytes(), weights.down.bytes(), std::as_bytes(std::span{weights.biases})};
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
  std::size_t sum = 0;
  for (const auto& piece : pieces_of(*weights_))
    sum += piece.size();
  return sum;
}

std::uint64_t packed_expert::checksum() const {
  return checksum_of(pieces_of(*weights_));
}

void packed_expert::read(std::size_t offset, std::span<std::byte> out) const {
  for_each_piece(offset, out.size(), pieces_of(*weights_),
                 [&](std::span<const std::byte> piece, std::size_t at) {
                   std::memcpy(out.data() + at, piece.data(), piece.size());
                 });
}

arriving_expert::arriving_expert(const cpu_weights& weights, std::size_t layer, const std::string& layout) {
  // BF16 may also be coded: the values are the same.
  auto format = expert_format(weights.quant(), weights.type());
  const auto wanted = expert_layout(weights, layer, format);
  if (format == kernels::packed_format::bf16_pair
      && layout == expert_layout(weights, layer, kernels::packed_format::bf16_coded))
    format = kernels::packed_format::bf16_coded;
  else if (layout != wanted)
    throw model_error("the expert is laid out as '" + layout.substr(0, 200) + "' there, and as '" + wanted
                      + "' here");
  layer_ = layer;
  shapes_ = shapes_of_mlp(format, expert_tensors(weights.config(), layer, 0));
  gate_up_ = kernels::buffer(shapes_.gate_up.bytes());
  down_ = kernels::buffer(shapes_.down.bytes());
  biases_.resize(shapes_.num_biases);
}

void arriving_expert::write(std::size_t offset, std::span<const std::byte> bytes) {
  const std::array<std::span<std::byte>, 3> pieces{gate_up_.bytes(), down_.bytes(),
                                                   std::as_writable_bytes(std::span{biases_})};
  for_each_piece(offset, bytes.size(), pieces, [&](std::span<std::byte> piece, std::size_t at) {
    std::memcpy(piece.data(), bytes.data() + at, piece.size());
  });
}

std::uint64_t arriving_expert::checksum() const {
  const expert_pieces pieces{gate_up_.bytes(), down_.bytes(), std::as_bytes(std::span{biases_})};
  return checksum_of(pieces);
}

kernels::expert_weights arriving_expert::assemble(const cpu_weights& weights) {
  return weights.assemble(layer_, checked(kernels::packed_matrix::own(shapes_.gate_up, std::move(gate_up_))),
                          checked(kernels::packed_matrix::own(shapes_.down, std::move(down_))),
                          std::move(biases_));
}

} // namespace troupe::model
