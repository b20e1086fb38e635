#include "kernels/model/checkpoint.hpp"

#include "kernels/arithmetic_revision.hpp"
#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/numerics.hpp"
#include "kernels/model/required_tensors.hpp"
#include "kernels/model/weights.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/unit/model/folder_refusal.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace troupe::model {
namespace {

using json = nlohmann::json;
using test::random_model;
using test::refusal;
using testing::HasSubstr;

json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}

void write_json(const std::filesystem::path& path, const json& value) {
  std::ofstream(path) << value;
}

/// Rewrites a file's header; the data stays.
void edit_header(const std::filesystem::path& path, const std::function<void(json&)>& edit) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  std::uint64_t old_length = 0;
  std::memcpy(&old_length, file.data(), 8);
  auto header = json::parse(file.substr(8, old_length));
  edit(header);
  const auto text = header.dump();
  const std::uint64_t length = text.size();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << text << file.substr(8 + old_length);
}

TEST(checkpoint, every_variant_of_a_folder_is_accepted) {
  for (const auto* variant : {"mixtral", "olmoe_bias", "qwen2_dense_layers", "qwen3_yarn"}) {
    const random_model model(variant);
    EXPECT_EQ(refusal(model.folder()), "accepted") << variant;
  }
}

TEST(checkpoint, sharded_and_single_hold_the_same_bytes) {
  const random_model single("mixtral");
  const random_model sharded("mixtral_sharded");
  const auto a = checkpoint::open(single.folder());
  const auto b = checkpoint::open(sharded.folder());
  ASSERT_EQ(a.num_tensors(), b.num_tensors());
  for (const auto& required : dense_tensors(load_config(single.folder()))) {
    const auto& x = a.at(required.name);
    const auto& y = b.at(required.name);
    ASSERT_EQ(x.num_bytes, y.num_bytes);
    EXPECT_EQ(std::memcmp(x.data, y.data, x.num_bytes), 0) << required.name;
  }
}

TEST(checkpoint, fingerprint_tells_models_apart_and_folders_with_the_same_model_not) {
  const auto fingerprint = [](const random_model& model) {
    return checkpoint::open(model.folder()).fingerprint(load_config(model.folder()));
  };
  const random_model one("qwen3");
  const random_model same("qwen3");
  const random_model retrained("qwen3", 2); // the same shapes, other weights
  EXPECT_EQ(fingerprint(one), fingerprint(same));
  EXPECT_EQ(fingerprint(one).size(), 32U);
  EXPECT_NE(fingerprint(one), fingerprint(retrained));
  auto config = read_json(same.folder() / "config.json");
  config["rope_theta"] = 5000.0;
  write_json(same.folder() / "config.json", config);
  EXPECT_NE(fingerprint(one), fingerprint(same));
}

TEST(checkpoint, fingerprint_tells_a_change_of_any_tensor) {
  const random_model model("mixtral");
  const auto file = model.folder() / "model.safetensors";
  const auto fingerprint = [&] {
    return checkpoint::open(model.folder()).fingerprint(load_config(model.folder()));
  };
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t header_bytes = 0;
  stream.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  std::string header(header_bytes, ' ');
  stream.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const auto original = fingerprint();
  std::size_t changed = 0;
  const auto tensors = json::parse(header);
  for (const auto& [name, tensor] : tensors.items()) {
    if (name == "__metadata__")
      continue;
    const auto begin = tensor["data_offsets"][0].get<std::size_t>();
    const auto end = tensor["data_offsets"][1].get<std::size_t>();
    const auto at = static_cast<std::streamoff>(sizeof header_bytes + header_bytes + begin);
    std::string data(end - begin, ' ');
    stream.seekg(at).read(data.data(), static_cast<std::streamsize>(data.size()));
    std::string negated = data;
    for (std::size_t i = 1; i < negated.size(); i += 2) // two bytes a value: the upper one has the sign
      negated[i] = static_cast<char>(static_cast<unsigned char>(negated[i]) ^ 0x80U);
    stream.seekp(at).write(negated.data(), static_cast<std::streamsize>(negated.size())).flush();
    EXPECT_NE(fingerprint(), original) << name;
    stream.seekp(at).write(data.data(), static_cast<std::streamsize>(data.size())).flush();
    ++changed;
  }
  EXPECT_GT(changed, 10U);
  EXPECT_EQ(fingerprint(), original);
}

TEST(checkpoint, dtype_follows_the_checkpoint_unless_chosen) {
  const random_model bf16("mixtral");
  const random_model f16("mixtral_f16");
  const auto resolved = [](dtype_choice choice, const random_model& model) {
    return resolve_dtype(choice, checkpoint::open(model.folder()), load_config(model.folder()));
  };
  EXPECT_EQ(resolved(dtype_choice::automatic, bf16), kernels::dtype::bf16);
  EXPECT_EQ(resolved(dtype_choice::automatic, f16), kernels::dtype::f32);
  EXPECT_EQ(resolved(dtype_choice::float32, bf16), kernels::dtype::f32);
  EXPECT_NE(numerics_class(kernels::dtype::f32), numerics_class(kernels::dtype::bf16));
  EXPECT_NE(numerics_class(kernels::dtype::bf16),
            numerics_class(kernels::dtype::bf16, {expert_quant::int8, dense_quant::none, {}}));
  EXPECT_NE(numerics_class(kernels::dtype::bf16, {expert_quant::none, dense_quant::int8, {}}),
            numerics_class(kernels::dtype::bf16, {expert_quant::none, dense_quant::int4_group32, {}}));
  const auto revision = "/r" + std::to_string(kernels::arithmetic_revision);
  EXPECT_EQ(numerics_class(kernels::dtype::bf16, {}, kernels::dtype::bf16), "cpu-x86/bf16/none" + revision);
  EXPECT_EQ(numerics_class(kernels::dtype::bf16, {}, kernels::dtype::int8),
            "cpu-x86/bf16/none+kv-int8" + revision);
}

TEST(checkpoint, a_truncated_file_names_file_and_tensor) {
  const random_model model("mixtral_sharded");
  const auto file = model.folder() / "model-00002-of-00003.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 100);
  const auto message = refusal(model.folder());
  EXPECT_THAT(message, HasSubstr("model-00002-of-00003.safetensors: truncated: tensor 'model.layers."));
  EXPECT_THAT(message, HasSubstr("the file has"));
}

TEST(checkpoint, an_empty_file_and_a_missing_file_are_named) {
  const random_model model("mixtral_sharded");
  std::filesystem::resize_file(model.folder() / "model-00001-of-00003.safetensors", 0);
  EXPECT_THAT(refusal(model.folder()), HasSubstr("model-00001-of-00003.safetensors: empty file"));
  std::filesystem::remove(model.folder() / "model-00001-of-00003.safetensors");
  EXPECT_THAT(refusal(model.folder()), HasSubstr("model-00001-of-00003.safetensors: No such file"));
}

TEST(checkpoint, a_folder_without_weights_says_what_it_looked_for) {
  const random_model model("mixtral");
  std::filesystem::remove(model.folder() / "model.safetensors");
  EXPECT_THAT(refusal(model.folder()),
              HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
  EXPECT_THAT(refusal(model.folder() / "config.json" / "x"), HasSubstr("config.json"));
}

TEST(checkpoint, missing_and_misshaped_tensors_come_in_one_error_with_a_count) {
  const random_model model("mixtral");
  edit_header(model.folder() / "model.safetensors", [](json& header) {
    const auto rename = [&](const std::string& from, const std::string& to) {
      header[to] = header.at(from);
      header.erase(from);
    };
    rename("model.norm.weight", "model.strange.weight");
    auto& shape = header["model.layers.1.block_sparse_moe.experts.3.w2.weight"]["shape"];
    shape = {shape[1], shape[0]};
  });
  const auto message = refusal(model.folder());
  EXPECT_THAT(message, HasSubstr(": 2 problems with the weights:"));
  EXPECT_THAT(message, HasSubstr("tensor 'model.norm.weight' is missing, expected shape [64]"));
  EXPECT_THAT(message, HasSubstr("experts.3.w2.weight' has shape [40, 64], expected [64, 40]"));
}

TEST(checkpoint, many_problems_are_counted_not_listed) {
  const random_model model("mixtral");
  auto config = read_json(model.folder() / "config.json");
  config["intermediate_size"] = 48;
  write_json(model.folder() / "config.json", config);
  const auto message = refusal(model.folder());
  EXPECT_THAT(message, HasSubstr("72 problems"));
  EXPECT_THAT(message, HasSubstr("and 67 more"));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 6);
}

TEST(checkpoint, an_index_that_names_no_files_is_refused) {
  const random_model model("mixtral_sharded");
  const auto path = model.folder() / "model.safetensors.index.json";
  const auto index = read_json(path);

  for (const auto* name : {"../model.safetensors", "/etc/passwd", "..", ""}) {
    auto edited = index;
    edited["weight_map"]["model.norm.weight"] = name;
    write_json(path, edited);
    EXPECT_THAT(refusal(model.folder()), HasSubstr("which is no file name")) << name;
  }

  for (const auto& broken : {json{{"weight_map", 3}}, json{{"weight_map", json::object()}}, json::object()}) {
    write_json(path, broken);
    EXPECT_THAT(refusal(model.folder()), HasSubstr("field 'weight_map'")) << broken;
  }
}

// While it is mapped: reading past its end would end the process.
TEST(checkpoint, a_file_that_is_cut_short_while_it_is_loaded_is_an_error) {
  const random_model model("mixtral");
  const auto file = model.folder() / "model.safetensors";
  auto weights = std::make_shared<checkpoint>(checkpoint::open(model.folder()));
  const auto config = load_config(model.folder());
  weights->match(config);
  const checkpoint_source source(weights, config, kernels::dtype::bf16);
  const auto size = std::filesystem::file_size(file);
  for (const auto left : {size - 10, size / 2, std::uintmax_t{1}}) {
    std::filesystem::resize_file(file, left);
    try {
      source.expert(2, 7);
      ADD_FAILURE() << "read weights that are not there";
    } catch (const model_error& e) {
      EXPECT_THAT(e.what(),
                  HasSubstr("model.safetensors: tensor 'model.layers.2.block_sparse_moe.experts.7."));
      EXPECT_THAT(e.what(), HasSubstr("' cannot be read: the file has been cut short since it was opened"));
    }
  }
}

TEST(checkpoint, a_file_that_is_cut_short_before_its_fingerprint_is_taken_is_an_error) {
  const random_model model("mixtral_sharded");
  const auto file = model.folder() / "model-00002-of-00003.safetensors";
  const auto config = load_config(model.folder());
  const auto weights = checkpoint::open(model.folder());
  const auto size = std::filesystem::file_size(file);
  for (const auto left : {size - 10, size / 2, std::uintmax_t{1}}) {
    std::filesystem::resize_file(file, left);
    try {
      weights.fingerprint(config);
      ADD_FAILURE() << "read weights that are not there";
    } catch (const model_error& e) {
      EXPECT_THAT(e.what(), HasSubstr("model-00002-of-00003.safetensors: tensor 'model."));
      EXPECT_THAT(e.what(), HasSubstr("' cannot be read: the file has been cut short since it was opened"));
    }
  }
}

// Pages that were read may be read again with other bytes, undetectably.
TEST(checkpoint, a_file_that_is_written_to_while_it_is_loaded_is_an_error) {
  const random_model model("mixtral");
  const auto file = model.folder() / "model.safetensors";
  auto weights = std::make_shared<checkpoint>(checkpoint::open(model.folder()));
  const auto config = load_config(model.folder());
  weights->match(config);
  const checkpoint_source source(weights, config, kernels::dtype::bf16);
  source.expert(2, 7);
  const auto written = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, written + std::chrono::seconds{1});
  try {
    source.expert(2, 7);
    ADD_FAILURE() << "read weights that may be others by now";
  } catch (const model_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("' cannot be read: the file has been written to since it was opened"));
  }
  // A replacement file does not affect holders of the old one.
  std::filesystem::copy_file(file, model.folder() / "new");
  std::filesystem::rename(model.folder() / "new", file);
  source.expert(2, 7);
}

TEST(first_not_finite, is_told_for_the_type_that_is_computed_in) {
  const auto first = [](storage_dtype type, const auto& values, kernels::dtype as) {
    return first_not_finite(
        {type, {}, reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof values[0]}, as);
  };
  for (const std::size_t at : {0UL, 63UL, 64UL, 129UL}) { // whole blocks of 64, and the remainder
    std::vector<float> wide(130, -3.0e38F);
    EXPECT_EQ(first(storage_dtype::float32, wide, kernels::dtype::bf16), std::nullopt);
    wide[at] = -3.395e38F; // rounds to the largest BF16 number
    EXPECT_EQ(first(storage_dtype::float32, wide, kernels::dtype::bf16), std::nullopt);
    wide[at] = -3.4e38F; // and this to infinity
    EXPECT_EQ(first(storage_dtype::float32, wide, kernels::dtype::f32), std::nullopt);
    EXPECT_EQ(first(storage_dtype::float32, wide, kernels::dtype::bf16), at);
    wide[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(first(storage_dtype::float32, wide, kernels::dtype::f32), at);
    std::vector<std::uint16_t> narrow(130, 0xff7f); // the least BF16 number
    EXPECT_EQ(first(storage_dtype::bfloat16, narrow, kernels::dtype::bf16), std::nullopt);
    narrow[at] = 0xff80; // −infinity
    EXPECT_EQ(first(storage_dtype::bfloat16, narrow, kernels::dtype::bf16), at);
    std::vector<std::uint16_t> half(130, 0xfbff); // the least FP16 number
    EXPECT_EQ(first(storage_dtype::float16, half, kernels::dtype::bf16), std::nullopt);
    half[at] = 0x7e00; // NaN
    EXPECT_EQ(first(storage_dtype::float16, half, kernels::dtype::bf16), at);
  }
}

TEST(checkpoint, a_tensor_in_two_files_is_refused) {
  const random_model model("mixtral_sharded");
  std::filesystem::copy_file(model.folder() / "model-00001-of-00003.safetensors",
                             model.folder() / "model-00002-of-00003.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(refusal(model.folder()), HasSubstr("is in another file of the checkpoint too"));
}

} // namespace
} // namespace troupe::model
