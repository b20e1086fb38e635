#include "kernels/model/packed_writer.hpp"

#include "kernels/model/dense_model.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe::model {

namespace {

/// A file under a temporary name until `commit`; removed where that never comes.
class pending_file {
 public:
  explicit pending_file(std::filesystem::path target)
      : target_(std::move(target)),
        path_(target_.string() + "." + std::to_string(::getpid()) + ".tmp"),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (fd_ < 0)
      fail();
  }

  ~pending_file() {
    if (fd_ < 0)
      return;
    ::close(fd_);
    ::unlink(path_.c_str());
  }

  pending_file(const pending_file&) = delete;
  pending_file& operator=(const pending_file&) = delete;

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        fail();
      offset += static_cast<std::uint64_t>(written);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void commit() {
    if (::fsync(fd_) != 0 || ::rename(path_.c_str(), target_.c_str()) != 0)
      fail();
    ::close(std::exchange(fd_, -1));
    // The name survives a crash too; where a folder cannot be synced, the file is still whole.
    const auto folder = target_.has_parent_path() ? target_.parent_path() : std::filesystem::path(".");
    if (const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
      ::fsync(fd);
      ::close(fd);
    }
  }

 private:
  [[noreturn]] void fail() const {
    throw model_error("cannot write " + target_.string() + ": " + std::strerror(errno));
  }

  std::filesystem::path target_;
  std::string path_;
  int fd_;
};

class extent_writer {
 public:
  explicit extent_writer(const std::filesystem::path& file) : file_(file) {}

  /// @param pieces  the extent's bytes in order, each a multiple of 64 bytes but the last
  void add(packed_extent extent, std::span<const std::span<const std::byte>> pieces) {
    extent.offset = (end_ + extent_alignment - 1) / extent_alignment * extent_alignment;
    std::uint64_t at = extent.offset;
    for (const auto& piece : pieces) {
      file_.write_at(at, piece);
      at += piece.size();
    }
    extent.num_bytes = at - extent.offset;
    extent.checksum = checksum_of(pieces);
    end_ = at;
    extents_.push_back(std::move(extent));
  }

  void finish(packed_index index) {
    index.extents = std::move(extents_);
    const std::string text = encode(index);
    packed_header header;
    header.index_offset = (end_ + extent_alignment - 1) / extent_alignment * extent_alignment;
    header.index_bytes = text.size();
    header.index_checksum = checksum_of(text);
    header.file_bytes = header.index_offset + text.size();
    file_.write_at(header.index_offset, std::as_bytes(std::span{text}));
    file_.write_at(0, header.encode());
    file_.commit();
  }

 private:
  pending_file file_;
  std::uint64_t end_ = packed_header::num_bytes;
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
class recording_source final : public weight_source {
 public:
  recording_source(const weight_source& source, extent_writer& out)
      : weight_source(source.config(), source.type(), source.quant()), source_(source), out_(out) {}

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
  const weight_source& source_;
  extent_writer& out_;
};

using expert_place = std::pair<std::size_t, std::size_t>; // layer, expert

/// Packs some experts, one thread each.
std::vector<kernels::expert_weights> pack_experts(const weight_source& source,
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

void write_packed(const weight_source& source, const std::filesystem::path& file, unsigned threads,
                  const pack_progress& progress) {
  extent_writer out(file);
  {
    const recording_source recording(source, out);
    // Borrowed: the model does not outlive this block.
    dense_model::load({std::shared_ptr<const weight_source>{}, &recording}, {.max_positions = 1});
  }
  std::vector<expert_place> places;
  for (std::size_t layer = 0; layer < source.config().num_layers(); ++layer)
    if (const auto* moe = source.config().layers[layer].moe())
      for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
        places.emplace_back(layer, expert);
  const std::size_t step = std::max(1U, threads);
  for (std::size_t i = 0; i < places.size(); i += step) {
    const auto some = std::span(places).subspan(i, std::min(step, places.size() - i));
    const auto packed = pack_experts(source, some);
    for (std::size_t j = 0; j < some.size(); ++j)
      add_mlp(out, expert_extent_name(some[j].first, some[j].second), packed[j]);
    if (progress)
      progress(i + some.size(), places.size());
  }
  out.finish({source.fingerprint(),
              checksum_of(source.config().canonical_json),
              source.type(),
              {source.quant().experts, source.quant().dense, kernels::row_quant::none},
              {}});
}

} // namespace troupe::model
