#include "kernels/model/packed_writer.hpp"

#include "kernels/arithmetic_revision.hpp"
#include "kernels/huge_page_heap.hpp"
#include "kernels/model/block_writer.hpp"
#include "kernels/model/cpu_runner.hpp"
#include "kernels/model/error.hpp"
#include "kernels/model/packed_source.hpp"
#include "kernels/model/partial_file.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace troupe::model {

namespace {

/// The existing part is damaged, or was written in another order by another version.
struct unusable_part {};

/// Bytes at the end of a part that are compared with their checksums before continuing. Earlier bytes are
/// checked when they are used, as in every packed file.
constexpr std::uint64_t bytes_checked = bytes_between_notes;

std::string part_id(const packed_index& index) {
  return std::to_string(packed_file_version) + " r" + std::to_string(kernels::arithmetic_revision) + " "
         + encode(index);
}

class extent_writer {
 public:
  /// Continues an existing part of the file.
  /// @param index    of the file, without extents
  /// @param written  called after each extent
  extent_writer(const std::filesystem::path& file, packed_index index, std::uint64_t note_every,
                std::function<void()> written)
      : file_(file, part_id(index)),
        index_(std::move(index)),
        note_every_(note_every),
        written_(std::move(written)) {
    if (file_.lines().empty() || !take_part())
      restart();
    blocks_.pad_to(packed_header::num_bytes); // the header is written last
  }

  /// Forgets the existing part.
  void restart() {
    file_.restart();
    index_.extents.clear();
    num_before_ = next_ = num_noted_ = 0;
    noted_to_ = 0;
    blocks_ = new_blocks();
    blocks_.pad_to(packed_header::num_bytes);
  }

  std::uint64_t bytes() const { return blocks_.end(); }

  /// The extents of the existing part, in order.
  std::span<const packed_extent> part() const { return std::span{index_.extents}.first(num_before_); }

  /// The existing part as a source of its content; null: there was none.
  std::shared_ptr<const packed_source> part_source(const model_config& config) const {
    return num_before_ == 0 ? nullptr : packed_source::open_part(file_.path(), index_, config);
  }

  /// Whether the next extent is in the existing part; it is then skipped.
  bool skips(const std::string& name) {
    if (next_ >= num_before_)
      return false;
    if (index_.extents[next_].name != name)
      throw unusable_part{};
    ++next_;
    return true;
  }

  /// @param pieces  the extent's bytes in order, each a multiple of 64 bytes but the last
  void add(packed_extent extent, std::span<const std::span<const std::byte>> pieces) {
    blocks_.pad_to(kernels::round_up(blocks_.end(), extent_alignment));
    extent.offset = blocks_.end();
    for (const auto& piece : pieces)
      blocks_.append(piece);
    extent.num_bytes = blocks_.end() - extent.offset;
    extent.checksum = checksum_of(pieces);
    index_.extents.push_back(std::move(extent));
    if (blocks_.passed_on() - noted_to_ >= note_every_)
      note();
    written_();
  }

  void finish() {
    const std::string text = encode(index_);
    packed_header header;
    blocks_.pad_to(kernels::round_up(blocks_.end(), extent_alignment));
    header.index_offset = blocks_.end();
    header.index_bytes = text.size();
    header.index_checksum = checksum_of(text);
    header.file_bytes = header.index_offset + text.size();
    blocks_.append(std::as_bytes(std::span{text}));
    blocks_.flush();
    file_.write_at(0, header.encode());
    file_.commit();
  }

 private:
  block_writer new_blocks() { return block_writer{sink()}; }

  block_writer::sink sink() {
    return [this](std::uint64_t offset, std::span<const std::byte> bytes) { file_.write_at(offset, bytes); };
  }

  /// Notes the extents that are completely in the file.
  void note() {
    std::vector<std::string> lines;
    for (; num_noted_ < index_.extents.size(); ++num_noted_) {
      const auto& extent = index_.extents[num_noted_];
      if (extent.offset + extent.num_bytes > blocks_.passed_on())
        break;
      lines.push_back(encode(extent));
    }
    file_.note(lines);
    noted_to_ = blocks_.passed_on();
  }

  /// @returns false if the part cannot be continued
  bool take_part() {
    std::uint64_t end = packed_header::num_bytes;
    try {
      for (const auto& line : file_.lines()) {
        auto extent = decode_extent(line);
        if (extent.offset != kernels::round_up(end, extent_alignment))
          return false;
        end = extent.offset + extent.num_bytes;
        index_.extents.push_back(std::move(extent));
      }
    } catch (const model_error&) {
      return false;
    }
    std::vector<std::byte> bytes;
    std::uint64_t checked = 0;
    for (auto i = index_.extents.size(); i > 0 && checked < bytes_checked; --i) {
      const auto& extent = index_.extents[i - 1];
      if (extent.offset + extent.num_bytes > file_.size())
        return false;
      bytes.resize(extent.num_bytes);
      if (!file_.read_at(extent.offset, bytes) || checksum_of(bytes) != extent.checksum)
        return false;
      checked += extent.num_bytes;
    }
    const auto begin = end / block_writer::block_bytes * block_writer::block_bytes;
    bytes.resize(end - begin);
    if (!file_.read_at(begin, bytes))
      return false;
    blocks_ = block_writer(sink(), begin, std::move(bytes));
    num_before_ = num_noted_ = index_.extents.size();
    noted_to_ = begin;
    return true;
  }

  partial_file file_;
  packed_index index_;
  std::uint64_t note_every_;
  std::function<void()> written_;
  block_writer blocks_ = new_blocks();
  std::size_t num_before_ = 0; // extents of the existing part
  std::size_t next_ = 0;       // the next of these to be skipped
  std::size_t num_noted_ = 0;
  std::uint64_t noted_to_ = 0; // bytes
};

void add_mlp(extent_writer& out, std::string name, const kernels::expert_weights& weights) {
  const std::span<const std::byte> pieces[] = {weights.gate_up.bytes(), weights.down.bytes(),
                                               std::as_bytes(std::span{weights.biases})};
  std::vector<std::size_t> shape{weights.ffn(), weights.hidden()};
  if (!weights.biases.empty())
    shape.push_back(weights.biases.size());
  const auto kind = weights.gated() ? extent_kind::mlp : extent_kind::ungated_mlp;
  out.add({std::move(name), kind, kernels::name_of(weights.gate_up.format()), std::move(shape)}, pieces);
}

template <class Read>
auto from_part(const Read& read) {
  try {
    return read();
  } catch (const model_error&) {
    throw unusable_part{};
  }
}

/// Passes on a source's weights, and writes them: loading the attention side through this writes exactly what
/// loading it will read. Written extents are read back from the file.
class recording_source final : public cpu_weights {
 public:
  recording_source(const cpu_weights& source, extent_writer& out)
      : cpu_weights(source.config(), source.type(), source.quant()),
        source_(source),
        out_(out),
        part_(out.part_source(source.config())) {}

  std::string fingerprint() const override { return source_.fingerprint(); }

  std::string description() const override { return source_.description(); }

  std::vector<float> floats(const tensor_requirement& tensor) const override {
    if (out_.skips(tensor.name))
      return from_part([&] { return part_->floats(tensor); });
    auto values = source_.floats(tensor);
    const std::span<const std::byte> bytes = std::as_bytes(std::span{values});
    out_.add({tensor.name, extent_kind::vector, "f32", {values.size()}}, {&bytes, 1});
    return values;
  }

  kernels::packed_matrix matrix(const matrix_ref& ref) const override {
    auto name = matrix_extent_name(ref);
    if (out_.skips(name))
      return from_part([&] { return part_->matrix(ref); });
    auto result = source_.matrix(ref);
    const std::span<const std::byte> bytes = result.bytes();
    out_.add({std::move(name),
              extent_kind::matrix,
              kernels::name_of(result.format()),
              {result.outputs(), result.inputs()}},
             {&bytes, 1});
    return result;
  }

  kernels::expert_weights mlp(const mlp_ref& ref) const override {
    if (out_.skips(ref.name))
      return from_part([&] { return part_->mlp(ref); });
    auto result = source_.mlp(ref);
    add_mlp(out_, ref.name, result);
    return result;
  }

  embedding_rows embeddings() const override {
    if (out_.skips("embeddings"))
      return from_part([&] { return part_->embeddings(); });
    auto result = source_.embeddings();
    const std::span<const std::byte> bytes{result.rows.data, result.num_bytes()};
    out_.add({"embeddings",
              extent_kind::embeddings,
              kernels::name_of(result.rows.type),
              {result.rows.rows, result.rows.cols, result.rows.row_stride}},
             {&bytes, 1});
    return result;
  }

  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override {
    return source_.expert(layer, expert);
  }

  std::size_t largest_expert(std::size_t layer) const override { return source_.largest_expert(layer); }

  void forget(std::size_t layer, std::size_t expert) const noexcept override {
    source_.forget(layer, expert);
  }

 private:
  const cpu_weights& source_;
  extent_writer& out_;
  std::shared_ptr<const packed_source> part_; // null: none
};

using expert_place = std::pair<std::size_t, std::size_t>; // layer, expert

/// Packs some experts, one thread each.
std::vector<kernels::expert_weights> pack_experts(const cpu_weights& source,
                                                  std::span<const expert_place> places) {
  std::vector<kernels::expert_weights> packed(places.size());
  std::vector<std::exception_ptr> failures(places.size());
  const auto pack = [&](std::size_t i) {
    try {
      packed[i] = source.expert(places[i].first, places[i].second);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < places.size(); ++i)
      threads.emplace_back(pack, i);
    pack(0);
  }
  for (const auto& failure : failures)
    if (failure)
      std::rethrow_exception(failure);
  return packed;
}

/// One attempt.
void write_extents(const cpu_weights& source, std::span<const expert_place> places, unsigned threads,
                   extent_writer& out, pack_state& state, const std::function<void()>& tell) {
  std::uint64_t expert_bytes = 0;
  for (const auto& place : places)
    expert_bytes += source.largest_expert(place.first);
  const auto& part = out.part();
  const auto first_expert =
      places.empty() ? part.end()
                     : std::ranges::find(part, expert_extent_name(places[0].first, places[0].second),
                                         &packed_extent::name);
  if (first_expert == part.end()) {
    const recording_source recording(source, out);
    // Borrowed: the model does not outlive this block.
    cpu_runner::load({std::shared_ptr<const cpu_weights>{}, &recording}, {.max_positions = 1},
                     [&](std::size_t, std::size_t total) { state.total_bytes = total + expert_bytes; });
  } else {
    for (auto extent = part.begin(); extent != first_expert; ++extent)
      out.skips(extent->name);
    state.total_bytes = first_expert->offset + expert_bytes;
  }
  while (state.experts < places.size()
         && out.skips(expert_extent_name(places[state.experts].first, places[state.experts].second)))
    ++state.experts;
  tell();
  const std::size_t step = std::max(1U, threads);
  for (std::size_t i = state.experts; i < places.size(); i += step) {
    const auto some = places.subspan(i, std::min(step, places.size() - i));
    const auto packed = pack_experts(source, some);
    for (std::size_t j = 0; j < some.size(); ++j) {
      ++state.experts;
      add_mlp(out, expert_extent_name(some[j].first, some[j].second), packed[j]);
    }
  }
}

} // namespace

void write_packed(const cpu_weights& source, const std::filesystem::path& file, unsigned threads,
                  const pack_progress& progress, std::uint64_t note_every) {
  std::vector<expert_place> places;
  for (std::size_t layer = 0; layer < source.config().num_layers(); ++layer)
    if (const auto* moe = source.config().layers[layer].moe())
      for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
        places.emplace_back(layer, expert);
  pack_state state{.num_experts = places.size()};
  std::function<void()> tell = [] {};
  extent_writer out(file,
                    {source.fingerprint(),
                     checksum_of(source.config().canonical_json),
                     source.type(),
                     {source.quant().experts, source.quant().dense, kernels::row_quant::none},
                     {}},
                    note_every, [&tell] { tell(); });
  if (progress)
    tell = [&] {
      state.bytes = out.bytes();
      state.total_bytes = std::max(state.total_bytes, state.bytes);
      progress(state);
    };
  tell();
  try {
    write_extents(source, places, threads, out, state, tell);
  } catch (const unusable_part&) {
    out.restart();
    state = {.num_experts = places.size()};
    write_extents(source, places, threads, out, state, tell);
  }
  out.finish();
}

} // namespace troupe::model
