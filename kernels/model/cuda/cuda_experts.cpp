#include "kernels/model/cuda/cuda_experts.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace troupe::model {

namespace cuda = kernels::cuda;
using kernels::bfloat16;

cuda_experts::cuda_experts(int device, std::shared_ptr<const tensor_source> tensors, kernels::isa set)
    : device_(device), tensors_(std::move(tensors)), set_(set) {
  limits_.hidden = config().hidden;
  for (const auto& layer : config().layers) {
    experts_.emplace_back(layer.moe() == nullptr ? 0 : layer.moe()->num_experts);
    if (layer.moe() != nullptr)
      limits_.ffn = std::max(limits_.ffn, layer.moe()->intermediate);
  }
}

void cuda_experts::load(std::size_t layer, std::size_t expert) {
  if (layer >= experts_.size() || expert >= experts_[layer].size())
    throw model_error("the model has no expert " + std::to_string(expert) + " in layer "
                      + std::to_string(layer));
  if (has(layer, expert))
    return;
  const auto names = expert_tensors(config(), layer, expert);
  const auto storage = expert_storage(tensors_->quant());
  const auto pack = [&](const std::string& name) {
    return pack_matrix(*tensors_, {&name, 1}, storage, set_);
  };
  const std::array<matrix_image, 3> images{pack(names.gate), pack(names.up), pack(names.down)};
  snapshot loaded;
  {
    const std::lock_guard lock{copying_};
    cuda::select_device(device_);
    loaded = std::make_shared<const device_matrices>(copies_, images);
  }
  const std::lock_guard lock{mutex_};
  auto& place = experts_[layer][expert];
  if (place != nullptr)
    return; // another thread was faster
  num_bytes_ += loaded->num_bytes();
  place = std::move(loaded);
}

bool cuda_experts::unload(std::size_t layer, std::size_t expert) {
  snapshot last; // given back outside the lock
  const std::lock_guard lock{mutex_};
  if (layer >= experts_.size() || expert >= experts_[layer].size() || experts_[layer][expert] == nullptr)
    return false;
  last = std::exchange(experts_[layer][expert], nullptr);
  num_bytes_ -= last->num_bytes();
  return true;
}

bool cuda_experts::has(std::size_t layer, std::size_t expert) const {
  const std::lock_guard lock{mutex_};
  return experts_[layer][expert] != nullptr;
}

std::size_t cuda_experts::num_bytes() const {
  const std::lock_guard lock{mutex_};
  return num_bytes_;
}

std::size_t cuda_experts::expert_bytes(std::size_t layer) const {
  const auto* moe = config().layers.at(layer).moe();
  if (moe == nullptr)
    return 0;
  const auto format = expert_storage(tensors_->quant()).format;
  const cuda::weight_shape first{format, moe->intermediate, config().hidden};
  const cuda::weight_shape second{format, config().hidden, moe->intermediate};
  return device_matrices::bytes_of(std::array{first, first, second});
}

std::optional<std::size_t> cuda_experts::hold(std::size_t layer, std::span<const expert_rows> batch,
                                              std::vector<snapshot>& held) const {
  const std::lock_guard lock{mutex_};
  for (const auto& rows : batch) {
    if (layer >= experts_.size() || rows.expert >= experts_[layer].size()
        || experts_[layer][rows.expert] == nullptr)
      return rows.expert;
    held.push_back(experts_[layer][rows.expert]);
  }
  return std::nullopt;
}

/// Expert i of the set is held[i].
cuda::expert_set cuda_experts::upload_tables(const moe_spec& moe, const std::vector<snapshot>& held) {
  const auto count = held.size();
  auto* first = host_tables_.reserve<cuda::weight_matrix>(3 * count);
  auto* second = first + 2 * count;
  for (std::size_t i = 0; i < count; ++i) {
    const auto matrices = held[i]->matrices();
    first[2 * i] = matrices[0];
    first[2 * i + 1] = matrices[1];
    second[i] = matrices[2];
  }
  auto* on_device = tables_.reserve<cuda::weight_matrix>(3 * count);
  on_.copy_to_device(on_device, first, 3 * count * sizeof(cuda::weight_matrix));
  return {.format = expert_storage(tensors_->quant()).format,
          .hidden = config().hidden,
          .ffn = moe.intermediate,
          .gated = true,
          .act = config().activation,
          .first = on_device,
          .first_on_host = {first, 2 * count},
          .second = on_device + 2 * count,
          .second_on_host = {second, count}};
}

void cuda_experts::make_room(std::size_t rows, std::size_t experts) {
  if (pass_ && rows <= limits_.most_rows && experts <= limits_.most_experts)
    return;
  pass_.reset(); // given back before more is taken
  limits_.most_rows = std::max(limits_.most_rows, rows + rows / 4);
  limits_.most_experts = std::max(limits_.most_experts, experts + experts / 4);
  pass_.emplace(limits_);
}

std::optional<std::size_t> cuda_experts::forward(std::size_t layer, std::span<const expert_rows> batch) {
  std::vector<snapshot> held;
  if (const auto missing = hold(layer, batch, held))
    return missing;
  std::vector<cuda::expert_rows> counts;
  std::size_t rows = 0;
  for (const auto& of : batch) {
    counts.push_back(
        {static_cast<std::uint32_t>(counts.size()), static_cast<std::uint32_t>(of.inputs.size())});
    rows += of.inputs.size();
  }
  if (rows == 0)
    return std::nullopt;
  cuda::select_device(device_);
  const work_ends_here idle_again(on_); // before `held` goes
  make_room(rows, batch.size());

  const auto row_bytes = config().hidden * sizeof(bfloat16);
  auto* inputs = host_inputs_.reserve<std::byte>(rows * row_bytes);
  for (auto* to = inputs; const auto& of : batch)
    for (const auto* row : of.inputs) {
      std::memcpy(to, row, row_bytes);
      to += row_bytes;
    }
  on_.copy_to_device(inputs_.reserve<std::byte>(rows * row_bytes), inputs, rows * row_bytes);
  pass_->run(on_, {.experts = upload_tables(*config().layers[layer].moe(), held),
                   .rows = counts,
                   .input = inputs_.as<bfloat16>(),
                   .output = outputs_.reserve<bfloat16>(rows * config().hidden),
                   .batch_invariant = true});
  auto* outputs = host_outputs_.reserve<std::byte>(rows * row_bytes);
  on_.copy_to_host(outputs, outputs_.as<std::byte>(), rows * row_bytes);
  on_.synchronize();
  for (const auto* from = outputs; const auto& of : batch)
    for (auto* row : of.outputs) {
      std::memcpy(row, from, row_bytes);
      from += row_bytes;
    }
  return std::nullopt;
}

} // namespace troupe::model
