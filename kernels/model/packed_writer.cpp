#include "kernels/model/packed_writer.hpp"

#include "kernels/huge_page_heap.hpp"
#include "kernels/model/block_writer.hpp"
#include "kernels/model/dense_model.hpp"
#include "kernels/model/pending_file.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace troupe::model {

namespace {

class extent_writer {
 public:
  /// @param written  called after each extent
  extent_writer(const std::filesystem::path& file, std::function<void()> written)
      : file_(file), written_(std::move(written)) {
    blocks_.pad_to(packed_header::num_bytes); // the header is written last
  }

  /// @param pieces  the extent's bytes in order, each a multiple of 64 bytes but the last
  void add(packed_extent extent, std::span<const std::span<const std::byte>> pieces) {
    blocks_.pad_to(kernels::round_up(blocks_.end(), extent_alignment));
    extent.offset = blocks_.end();
    for (const auto& piece : pieces)
      blocks_.append(piece);
    extent.num_bytes = blocks_.end() - extent.offset;
    extent.checksum = checksum_of(pieces);
    extents_.push_back(std::move(extent));
    written_();
  }

  void finish(packed_index index) {
    index.extents = std::move(extents_);
    const std::string text = encode(index);
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
  pending_file file_;
  block_writer blocks_{
      [this](std::uint64_t offset, std::span<const std::byte> bytes) { file_.write_at(offset, bytes); }};
  std::function<void()> written_;
  std::vector<packed_extent> extents_;
};

void add_mlp(extent_writer& out, std::string name, const kernels::expert_weights& weights) {
  const std::span<const std::byte> pieces[] = {weights.gate_up.bytes(), weights.down.bytes()};
  out.add({std::move(name),
           extent_kind::mlp,
           kernels::name_of(weights.gate_up.format()),
           {weights.ffn(), weights.hidden()}},
          pieces);
}

/// Passes on what a source gives, and writes it down: loading the attention side through this writes exactly
/// what loading it will ask for.
class recording_source final : public cpu_weights {
 public:
  recording_source(const cpu_weights& source, extent_writer& out)
      : cpu_weights(source.config(), source.type(), source.quant()), source_(source), out_(out) {}

  std::string fingerprint() const override { return source_.fingerprint(); }

  std::string description() const override { return source_.description(); }

  std::vector<float> floats(const std::string& name) const override {
    auto values = source_.floats(name);
    const std::span<const std::byte> bytes = std::as_bytes(std::span{values});
    out_.add({name, extent_kind::vector, "f32", {values.size()}}, {&bytes, 1});
    return values;
  }

  kernels::packed_matrix matrix(std::span<const std::string> names, bool plain) const override {
    auto result = source_.matrix(names, plain);
    const std::span<const std::byte> bytes = result.bytes();
    out_.add({matrix_extent_name(names),
              extent_kind::matrix,
              kernels::name_of(result.format()),
              {result.outputs(), result.inputs()}},
             {&bytes, 1});
    return result;
  }

  kernels::expert_weights mlp(const std::string& prefix) const override {
    auto result = source_.mlp(prefix);
    add_mlp(out_, prefix, result);
    return result;
  }

  embedding_rows embeddings() const override {
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

} // namespace

void write_packed(const cpu_weights& source, const std::filesystem::path& file, unsigned threads,
                  const pack_progress& progress) {
  std::vector<expert_place> places;
  for (std::size_t layer = 0; layer < source.config().num_layers(); ++layer)
    if (const auto* moe = source.config().layers[layer].moe())
      for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
        places.emplace_back(layer, expert);
  std::size_t experts = 0;
  extent_writer out(file, [&] {
    if (progress)
      progress(experts, places.size());
  });
  {
    const recording_source recording(source, out);
    // Borrowed: the model does not outlive this block.
    dense_model::load({std::shared_ptr<const cpu_weights>{}, &recording}, {.max_positions = 1});
  }
  const std::size_t step = std::max(1U, threads);
  for (std::size_t i = 0; i < places.size(); i += step) {
    const auto some = std::span(places).subspan(i, std::min(step, places.size() - i));
    const auto packed = pack_experts(source, some);
    for (std::size_t j = 0; j < some.size(); ++j) {
      ++experts;
      add_mlp(out, expert_extent_name(some[j].first, some[j].second), packed[j]);
    }
  }
  out.finish({source.fingerprint(),
              checksum_of(source.config().canonical_json),
              source.type(),
              {source.quant().experts, source.quant().dense, kernels::row_quant::none},
              {}});
}

} // namespace troupe::model
