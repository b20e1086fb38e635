// A model with every kind of layer, and its packed file, whole and in parts.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/model/cpu_runner.hpp"
#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_source.hpp"
#include "tests/reference/random_model.hpp"

namespace troupe::model {

inline constexpr const char* packed_variant =
    "qwen2_dense_layers"; // dense layers, a routed one, a gated shared expert, bias

inline const quantization all_quants[] = {
    {},
    {expert_quant::int8, dense_quant::none, kernels::row_quant::none},
    {expert_quant::int8, dense_quant::none, kernels::row_quant::int8},
    {expert_quant::int4_group32, dense_quant::none, kernels::row_quant::none},
    {expert_quant::int4_group64, dense_quant::int8, kernels::row_quant::int8},
    {expert_quant::int4_channel, dense_quant::int8, kernels::row_quant::none},
    {expert_quant::int4_group32, dense_quant::int4_group32, kernels::row_quant::int8},
    {expert_quant::none, dense_quant::int4_group32, kernels::row_quant::none},
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// The flags of each mapping of a file in this process, as /proc/self/smaps has them: "VmFlags: rd mr ...".
inline std::vector<std::string> mapping_flags(const std::filesystem::path& path) {
  std::ifstream in("/proc/self/smaps");
  const std::string name = std::filesystem::canonical(path).string();
  std::vector<std::string> found;
  bool of_file = false;
  for (std::string line; std::getline(in, line);)
    if (line.substr(0, line.find(' ')).find('-') != std::string::npos) // addresses, rights, ..., file
      of_file = line.ends_with(" " + name);
    else if (of_file && line.starts_with("VmFlags:"))
      found.push_back(line + " ");
  return found;
}

/// The exception's text; empty if none is thrown.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const model_error& error) {
    return error.what();
  }
  return "";
}

class packed_weights : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = std::make_unique<test::random_model>(packed_variant); }

  static void TearDownTestSuite() { model_.reset(); }

  std::shared_ptr<const cpu_weights> checkpoint_with(const quantization& quant,
                                                     kernels::dtype type = kernels::dtype::bf16,
                                                     weight_coding coding = weight_coding::none) {
    return std::make_shared<const checkpoint_source>(
        std::make_shared<const checkpoint>(checkpoint::open(model_->folder())), config_, type, quant,
        kernels::isa::portable, coding);
  }

  /// A file's bytes, decoded.
  struct taken_apart {
    std::string bytes;
    packed_header header;
    packed_index index;
  };

  taken_apart take_apart() const {
    auto bytes = read_file(file());
    const auto header = packed_header::decode(std::as_bytes(std::span{bytes.data(), bytes.size()}), "file");
    auto index = decode_index(std::string_view{bytes}.substr(header.index_offset, header.index_bytes),
                              header.index_offset, "file");
    return {std::move(bytes), header, std::move(index)};
  }

  std::vector<packed_extent> extents() const { return take_apart().index.extents; }

  /// Replaces the index of a file that is otherwise correct.
  /// @returns the error of reading all of it
  std::string error_with_index(const taken_apart& whole, const std::string& index) {
    auto header = whole.header;
    header.index_bytes = index.size();
    header.index_checksum = checksum_of(index);
    header.file_bytes = header.index_offset + index.size();
    const auto start = header.encode();
    write_file(file(), std::string{reinterpret_cast<const char*>(start.data()), start.size()}
                           + whole.bytes.substr(start.size(), header.index_offset - start.size()) + index);
    return error_of([&] { open_and_read(); });
  }

  std::filesystem::path file() const { return scratch_.path() / packed_file_name; }

  /// Requests everything, like attention and expert workers together.
  static void read_all(const std::shared_ptr<const cpu_weights>& source) {
    cpu_runner::load(source, {.max_positions = 1});
    for (std::size_t layer = 0; layer < source->config().num_layers(); ++layer)
      if (const auto* moe = source->config().layers[layer].moe())
        for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
          source->expert(layer, expert);
  }

  void open_and_read() { read_all(packed_source::open(file(), config_)); }

  inline static std::unique_ptr<test::random_model> model_;
  model_config config_ = load_config(model_->folder());
  test::scratch_folder scratch_;
};

} // namespace troupe::model
