#include "kernels/model/cuda/cuda_experts.hpp"

#include "kernels/error.hpp"
#include "kernels/model/cuda/matrix_alignment.hpp"
#include "kernels/model/required_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::model {

namespace cuda = kernels::cuda;
using kernels::bfloat16;

namespace {

// Device memory that experts leave free: for graphs, libraries, and other computation there.
constexpr std::size_t reserve_bytes = std::size_t{1} << 30;

// Rows of a large prefill that one call computes, counted once for each of their experts.
constexpr std::size_t usual_most_rows = 16384;

/// Waits at the end of a scope for copies of rows.
class copies_end_here {
 public:
  explicit copies_end_here(const row_copies& rows) : rows_(rows) {}

  ~copies_end_here() { rows_.wait(); }

  copies_end_here(const copies_end_here&) = delete;
  copies_end_here& operator=(const copies_end_here&) = delete;

 private:
  const row_copies& rows_;
};

} // namespace

cuda_experts::cuda_experts(int device, std::shared_ptr<const tensor_source> tensors, kernels::isa set,
                           std::size_t memory, std::size_t piece_bytes)
    : device_(device), tensors_(std::move(tensors)), set_(set), rows_(piece_bytes) {
  limits_.hidden = config().hidden;
  for (const auto& layer : config().layers) {
    experts_.emplace_back(layer.moe() == nullptr ? 0 : layer.moe()->num_experts);
    if (layer.moe() != nullptr)
      limits_.ffn = std::max(limits_.ffn, layer.moe()->intermediate);
  }
  std::size_t largest = 0;
  std::size_t all = 0;
  std::map<std::size_t, std::size_t> counts; // by the bytes of an expert
  for (std::size_t layer = 0; layer < experts_.size(); ++layer) {
    if (experts_[layer].empty())
      continue;
    const auto bytes = matrices_bytes(layer);
    largest = std::max(largest, bytes);
    all += experts_[layer].size() * bytes;
    counts[bytes] += experts_[layer].size();
  }
  if (memory == 0 || all <= memory) {
    for (const auto& [bytes, count] : counts)
      slabs_.try_emplace(bytes, bytes, count);
    return;
  }
  if (memory < aligned(largest))
    throw model_error("the GPU's memory for experts, " + std::to_string(memory)
                      + " bytes, holds no expert of " + std::to_string(aligned(largest))
                      + " bytes; give it more, or 0 for all experts");
  slots_.emplace(memory / aligned(largest), largest);
}

void cuda_experts::load(std::size_t layer, std::size_t expert) {
  if (layer >= experts_.size() || expert >= experts_[layer].size())
    throw model_error("the model has no expert " + std::to_string(expert) + " in layer "
                      + std::to_string(layer));
  if (has(layer, expert))
    return;
  cuda::select_device(device_);
  // Allocates first: without memory, reading and packing would be in vain.
  auto loaded = std::make_shared<loaded_expert>();
  cuda::pinned_memory pinned;
  if (slots_)
    pinned = cuda::pinned_memory(matrices_bytes(layer));
  else
    loaded->place.emplace(slabs_.at(matrices_bytes(layer)).take());
  const auto images =
      pack_mlp(*tensors_, expert_tensors(config(), layer, expert), expert_storage(tensors_->quant()), set_);
  if (slots_) {
    loaded->on_host.emplace(images, std::move(pinned));
  } else {
    const std::lock_guard lock{copying_};
    loaded->on_device.emplace(copies_, images, loaded->place->data());
  }
  const std::lock_guard lock{mutex_};
  auto& known = experts_[layer][expert];
  if (known != nullptr)
    return; // another thread was faster
  loaded->id = ++num_loads_;
  pinned_bytes_ += loaded->pinned_bytes();
  known = std::move(loaded);
}

bool cuda_experts::unload(std::size_t layer, std::size_t expert) {
  snapshot last; // freed outside the lock
  const std::lock_guard lock{mutex_};
  if (layer >= experts_.size() || expert >= experts_[layer].size() || experts_[layer][expert] == nullptr)
    return false;
  last = std::exchange(experts_[layer][expert], nullptr);
  pinned_bytes_ -= last->pinned_bytes();
  return true;
}

bool cuda_experts::has(std::size_t layer, std::size_t expert) const {
  const std::lock_guard lock{mutex_};
  return experts_[layer][expert] != nullptr;
}

std::size_t cuda_experts::num_bytes() const {
  std::size_t total = 0;
  for (const auto& [bytes, slabs] : slabs_)
    total += slabs.num_bytes();
  const std::lock_guard lock{mutex_};
  return total + pinned_bytes_;
}

std::size_t cuda_experts::expert_bytes(std::size_t layer) const {
  const auto bytes = matrices_bytes(layer);
  return slots_ || bytes == 0 ? bytes : slabs_.at(bytes).bytes_of_expert();
}

std::optional<std::size_t> cuda_experts::room() const {
  if (slots_)
    return std::nullopt;
  cuda::select_device(device_);
  std::size_t least = 1; // 0 would mean unlimited
  for (std::size_t layer = 0; layer < experts_.size(); ++layer)
    least = std::max(least, expert_bytes(layer));
  const auto there = cuda::device_memory_room().free_bytes + num_bytes();
  const auto kept = reserve_bytes + working_bytes();
  return std::max(there > kept ? there - kept : 0, least);
}

/// Memory of `forward` for many rows: inputs, outputs and intermediate results.
std::size_t cuda_experts::working_bytes() const {
  return usual_most_rows * (2 * limits_.hidden + limits_.ffn) * sizeof(bfloat16);
}

/// Without the rounding of slabs.
std::size_t cuda_experts::matrices_bytes(std::size_t layer) const {
  const auto* moe = config().layers.at(layer).moe();
  if (moe == nullptr)
    return 0;
  const auto format = expert_storage(tensors_->quant()).format;
  const cuda::weight_shape first{format, moe->intermediate, config().hidden};
  const cuda::weight_shape second{format, config().hidden, moe->intermediate};
  std::vector shapes{first, second};
  if (moe->is_gated())
    shapes.push_back(first);
  return device_matrices::bytes_of(shapes, moe->has_bias);
}

std::optional<std::size_t> cuda_experts::hold(std::size_t layer, std::span<const expert_rows> batch,
                                              std::vector<batch_part>& held) const {
  const std::lock_guard lock{mutex_};
  for (const auto& rows : batch) {
    if (layer >= experts_.size() || rows.expert >= experts_[layer].size()
        || experts_[layer][rows.expert] == nullptr)
      return rows.expert;
    if (!rows.inputs.empty())
      held.push_back({&rows, experts_[layer][rows.expert]});
  }
  return std::nullopt;
}

/// Writes an expert's matrices to the wave's table; false: there is no slot for it.
bool cuda_experts::add_to_table(const loaded_expert& expert, std::span<cuda::weight_matrix> first,
                                cuda::weight_matrix& second) {
  if (expert.on_device) {
    const auto matrices = expert.on_device->matrices();
    std::ranges::copy(matrices.first(first.size()), first.begin());
    second = matrices.back();
    return true;
  }
  const auto* base = slots_->take(expert.id, *expert.on_host);
  if (base == nullptr)
    return false;
  for (std::size_t i = 0; i < first.size(); ++i)
    first[i] = expert.on_host->at(base, i);
  second = expert.on_host->at(base, first.size());
  return true;
}

/// Chooses the first of some parts: as many as make a piece's rows, or as there are slots for. Writes their
/// matrices to the table on the host, and starts copying those that are missing on the device.
/// @param first_part  number of earlier parts: their tables are in use
/// @param rows_of_piece  fewest rows of the wave, if there are as many rows and slots
/// @returns the number of parts
std::size_t cuda_experts::begin_wave(const moe_spec& moe, std::span<const batch_part> parts,
                                     std::size_t first_part, std::size_t rows_of_piece) {
  const std::size_t firsts = moe.is_gated() ? 2 : 1;
  auto* first = host_tables_.as<cuda::weight_matrix>() + 3 * first_part;
  std::vector<cuda::weight_matrix> second; // follows all of `first` once their number is known
  // All that are on the device; otherwise as many as half of the slots hold, so that the next wave is copied
  // into the other half meanwhile.
  const bool are_there = slots_ && slots_->has(parts.front().expert->id);
  const std::size_t most =
      slots_ && !are_there ? std::max<std::size_t>(slots_->count() / 2, 1) : parts.size();
  std::size_t rows = 0;
  for (const auto& part : parts.first(std::min(most, parts.size()))) {
    if (rows >= rows_of_piece)
      break;
    rows += part.rows->inputs.size();
    if (slots_ && slots_->has(part.expert->id) != are_there)
      break;
    cuda::weight_matrix down;
    if (!add_to_table(*part.expert, {first + firsts * second.size(), firsts}, down))
      break;
    second.push_back(down);
  }
  kernels::expect(!second.empty(), "cuda experts: a wave computes something");
  std::copy(second.begin(), second.end(), first + firsts * second.size());
  return second.size();
}

/// @param first_part, first_row  numbers before the wave
void cuda_experts::run_wave(const moe_spec& moe, std::span<const batch_part> wave, std::size_t first_part,
                            std::size_t first_row) {
  const auto count = wave.size();
  const auto num_first = (moe.is_gated() ? 2 : 1) * count;
  std::vector<cuda::expert_rows> counts;
  for (const auto& part : wave)
    counts.push_back(
        {static_cast<std::uint32_t>(counts.size()), static_cast<std::uint32_t>(part.rows->inputs.size())});
  const auto* on_host = host_tables_.as<cuda::weight_matrix>() + 3 * first_part;
  auto* on_device = tables_.as<cuda::weight_matrix>() + 3 * first_part;
  on_.copy_to_device(on_device, on_host, (num_first + count) * sizeof(cuda::weight_matrix));
  if (slots_)
    slots_->begin_use(on_);
  const auto at = first_row * config().hidden * sizeof(bfloat16);
  pass_->run(on_, {.experts = {.format = expert_storage(tensors_->quant()).format,
                               .hidden = config().hidden,
                               .ffn = moe.intermediate,
                               .gated = moe.is_gated(),
                               .act = moe.act,
                               .act_limit = moe.act_limit,
                               .first = on_device,
                               .first_on_host = {on_host, num_first},
                               .second = on_device + num_first,
                               .second_on_host = {on_host + num_first, count}},
                   .rows = counts,
                   .input = reinterpret_cast<const bfloat16*>(rows_.inputs() + at),
                   .output = reinterpret_cast<bfloat16*>(rows_.outputs() + at)});
  if (slots_)
    slots_->end_use(on_);
}

/// @param rows  of all parts
void cuda_experts::compute(std::size_t layer, std::span<const batch_part> parts, std::size_t rows) {
  const auto& moe = *config().layers[layer].moe();
  host_tables_.reserve<cuda::weight_matrix>(3 * parts.size());
  tables_.reserve<cuda::weight_matrix>(3 * parts.size());
  rows_.begin(rows, config().hidden * sizeof(bfloat16));
  const bool goes_at_once = rows_.goes_at_once();
  const auto send = [&](std::span<const batch_part> of) {
    for (const auto& part : of)
      rows_.add(*part.rows);
    rows_.send(on_);
  };
  if (goes_at_once)
    send(parts);
  std::size_t first_row = 0;
  for (std::size_t done = 0; done < parts.size();) {
    const auto wave = parts.subspan(done, begin_wave(moe, parts.subspan(done), done, rows_.rows_of_piece()));
    if (!goes_at_once)
      send(wave);
    run_wave(moe, wave, done, first_row);
    if (!goes_at_once)
      rows_.fetch(on_);
    for (const auto& part : wave)
      first_row += part.rows->inputs.size();
    done += wave.size();
  }
  if (goes_at_once)
    rows_.fetch(on_);
  rows_.finish();
  on_.synchronize();
}

void cuda_experts::make_room(std::size_t rows, std::size_t experts) {
  if (pass_ && rows <= limits_.most_rows && experts <= limits_.most_experts)
    return;
  pass_.reset();         // frees memory before allocating more
  auto wanted = limits_; // changed once a pass exists for them
  wanted.most_rows = std::max(limits_.most_rows, rows + rows / 4);
  wanted.most_experts = std::max(limits_.most_experts, experts + experts / 4);
  try {
    pass_.emplace(wanted);
  } catch (const cuda::device_error& error) {
    if (!error.is_out_of_memory())
      throw;
    wanted.most_rows = rows;
    wanted.most_experts = experts;
    pass_.emplace(wanted);
  }
  limits_ = wanted;
}

std::optional<std::size_t> cuda_experts::forward(std::size_t layer, std::span<const expert_rows> batch) {
  std::vector<batch_part> parts;
  if (const auto missing = hold(layer, batch, parts))
    return missing;
  if (parts.empty())
    return std::nullopt;
  std::size_t rows = 0;
  for (const auto& part : parts)
    rows += part.rows->inputs.size();
  cuda::select_device(device_);
  const work_ends_here idle_again(on_); // waits before `parts` is destroyed
  const copies_end_here copied(rows_);
  make_room(rows, parts.size());
  if (!slots_) {
    compute(layer, parts, rows);
    return std::nullopt;
  }
  // Those on the device come first: copies into their slots wait for them.
  std::stable_partition(parts.begin(), parts.end(),
                        [&](const batch_part& part) { return slots_->has(part.expert->id); });
  try {
    compute(layer, parts, rows);
  } catch (...) {
    slots_->clear(); // before `parts` is destroyed
    throw;
  }
  return std::nullopt;
}

} // namespace troupe::model
