// Packed weight files: what is written is what a checkpoint gives, and whatever is wrong with a file is said.
#include "kernels/model/dense_model.hpp"
#include "kernels/model/expert_store.hpp"
#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_source.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/unit/model/batch_runner.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <sys/resource.h>

namespace troupe::model {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* variant =
    "qwen2_dense_layers"; // dense layers, a routed one, a gated shared expert, bias

const quantization all_quants[] = {
    {},
    {expert_quant::int8, dense_quant::none, kernels::row_quant::none},
    {expert_quant::int8, dense_quant::none, kernels::row_quant::int8},
    {expert_quant::int4_group32, dense_quant::none, kernels::row_quant::none},
    {expert_quant::int4_group64, dense_quant::int8, kernels::row_quant::int8},
    {expert_quant::int4_channel, dense_quant::int8, kernels::row_quant::none},
    {expert_quant::int4_group32, dense_quant::int4_group32, kernels::row_quant::int8},
    {expert_quant::none, dense_quant::int4_group32, kernels::row_quant::none},
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// What is thrown, or nothing.
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const model_error& error) {
    return error.what();
  }
  return "";
}

class packed_weights : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = std::make_unique<test::random_model>(variant); }

  static void TearDownTestSuite() { model_.reset(); }

  std::shared_ptr<const cpu_weights> checkpoint_with(const quantization& quant,
                                                     kernels::dtype type = kernels::dtype::bf16,
                                                     weight_coding coding = weight_coding::none) {
    return std::make_shared<const checkpoint_source>(
        std::make_shared<const checkpoint>(checkpoint::open(model_->folder())), config_, type, quant,
        kernels::isa::portable, coding);
  }

  /// A file's bytes and what they say.
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

  /// The file with another index and everything else of it right. @returns what reading all of it throws
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

  /// Asks for everything, as attention and expert workers together do.
  static void read_all(const std::shared_ptr<const cpu_weights>& source) {
    dense_model::load(source, {.max_positions = 1});
    for (std::size_t layer = 0; layer < source->config().num_layers(); ++layer)
      if (const auto* moe = source->config().layers[layer].moe())
        for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
          source->expert(layer, expert);
  }

  void open_and_read() { read_all(packed_source::open(file(), config_)); }

  static std::unique_ptr<test::random_model> model_;
  model_config config_ = load_config(model_->folder());
  test::scratch_folder scratch_;
};

std::unique_ptr<test::random_model> packed_weights::model_;

TEST_F(packed_weights, give_the_bits_of_weights_that_are_packed_while_loading) {
  kernels::thread_pool pool({.threads = 2});
  kernels::context ctx(pool);
  const std::vector<std::uint32_t> prompt{3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26};
  for (const auto type : {kernels::dtype::bf16, kernels::dtype::f32})
    for (const auto& quant : all_quants) {
      SCOPED_TRACE(numerics_class(type, quant));
      const auto loaded = checkpoint_with(quant, type);
      write_packed(*loaded, file(), 3);
      const auto packed = packed_source::open(file(), config_, quant.rows);
      EXPECT_EQ(packed->fingerprint(), loaded->fingerprint());
      EXPECT_EQ(numerics_class(packed->type(), packed->quant()), numerics_class(type, quant));
      const auto expected = test::batch_runner(ctx, loaded).run({{0, prompt}});
      EXPECT_EQ(test::batch_runner(ctx, packed).run({{0, prompt}}), expected);
      const auto copied = packed_source::open(file(), config_, quant.rows, weight_memory::copied);
      EXPECT_EQ(test::batch_runner(ctx, copied).run({{0, prompt}}), expected);
      EXPECT_NE(expected.front(), expected.back());
    }
}

TEST_F(packed_weights, with_coded_exponents_are_the_same_weights) {
  kernels::thread_pool pool({.threads = 2});
  kernels::context ctx(pool);
  const std::vector<std::uint32_t> prompt{3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26};
  for (const auto& quant : all_quants) {
    SCOPED_TRACE(quant.name());
    const auto expected = test::batch_runner(ctx, checkpoint_with(quant)).run({{0, prompt}});
    const auto coded = checkpoint_with(quant, kernels::dtype::bf16, weight_coding::exponents);
    EXPECT_EQ(test::batch_runner(ctx, coded).run({{0, prompt}}), expected);
    write_packed(*coded, file(), 2);
    for (const auto memory : {weight_memory::mapped, weight_memory::copied}) {
      const auto packed = packed_source::open(file(), config_, quant.rows, memory);
      EXPECT_EQ(test::batch_runner(ctx, packed).run({{0, prompt}}), expected);
    }
    for (const auto& extent : extents()) {
      const bool is_expert = extent.name.find(".experts.") != std::string::npos;
      const bool plain = is_expert ? quant.experts == expert_quant::none : quant.dense == dense_quant::none;
      const bool router = extent.name.ends_with("mlp.gate.weight");
      if (extent.kind == extent_kind::mlp || (extent.kind == extent_kind::matrix && !router))
        EXPECT_EQ(extent.format == "bf16-coded", plain) << extent.name;
      else
        EXPECT_NE(extent.format, "bf16-coded") << extent.name;
    }
  }
}

// What an expert worker counts its memory with: as many coded experts fit as there is room for.
TEST_F(packed_weights, tell_how_large_their_experts_are) {
  for (const auto coding : {weight_coding::none, weight_coding::exponents}) {
    const auto source = checkpoint_with({}, kernels::dtype::bf16, coding);
    write_packed(*source, file(), 1);
    kernels::thread_pool pool({.threads = 1});
    kernels::context ctx(pool);
    expert_store store(ctx, packed_source::open(file(), config_));
    store.load(1, 3);
    EXPECT_EQ(store.expert_bytes(1), store.num_bytes());
    EXPECT_EQ(store.expert_bytes(0), 0U);
    EXPECT_GE(source->largest_expert(1), store.num_bytes());
  }
}

TEST_F(packed_weights, computed_in_float32_have_no_exponents_to_code) {
  write_packed(*checkpoint_with({}, kernels::dtype::f32, weight_coding::exponents), file(), 1);
  for (const auto& extent : extents())
    EXPECT_NE(extent.format, "bf16-coded") << extent.name;
}

// Weights that nobody trained: an expert's second matrix has all exponents there are.
TEST_F(packed_weights, that_cannot_be_coded_stay_as_they_are) {
  test::scratch_folder folder;
  std::filesystem::copy(model_->folder(), folder.path());
  const std::string name = expert_tensors(config_, 1, 5).down;
  std::size_t replaced = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const auto weights = checkpoint::open(folder.path());
    const auto& tensor = weights.at(name);
    auto bytes = read_file(entry.path());
    const auto place = bytes.find(std::string{reinterpret_cast<const char*>(tensor.data), tensor.num_bytes});
    if (place == std::string::npos)
      continue;
    std::mt19937 random(1);
    for (std::size_t i = 0; i < tensor.num_bytes; ++i)
      bytes[place + i] = static_cast<char>(random() & 0x7e); // no NaN
    write_file(entry.path().string() + ".new", bytes);
    std::filesystem::rename(entry.path().string() + ".new", entry.path()); // it is mapped
    ++replaced;
  }
  ASSERT_EQ(replaced, 1U);
  const auto source = std::make_shared<const checkpoint_source>(
      std::make_shared<const checkpoint>(checkpoint::open(folder.path())), config_, kernels::dtype::bf16,
      quantization{}, kernels::isa::portable, weight_coding::exponents);
  write_packed(*source, file(), 1);
  const auto packed = packed_source::open(file(), config_);
  for (const std::size_t expert : {4UL, 5UL}) {
    const auto format = expert == 5 ? kernels::packed_format::bf16_pair : kernels::packed_format::bf16_coded;
    for (const auto& weights : {source->expert(1, expert), packed->expert(1, expert)}) {
      EXPECT_EQ(weights.gate_up.format(), format);
      EXPECT_EQ(weights.down.format(), format);
    }
  }
}

TEST_F(packed_weights, lists_of_exceptions_that_lead_out_of_a_panel_are_refused) {
  write_packed(*checkpoint_with({}, kernels::dtype::bf16, weight_coding::exponents), file(), 1);
  auto whole = take_apart();
  auto& extent = whole.index.extents.back();
  // No end of the list, with all checksums right.
  std::fill_n(whole.bytes.begin() + static_cast<std::ptrdiff_t>(extent.offset) + 64, 64, '\0');
  extent.checksum = checksum_of(std::string_view{whole.bytes}.substr(extent.offset, extent.num_bytes));
  EXPECT_EQ(error_with_index(whole, encode(whole.index)),
            file().string() + ": extent 'layers.1.experts.7' has a panel whose exceptions make no sense");
}

TEST_F(packed_weights, a_cache_keeps_coded_weights_apart_from_others) {
  for (int times = 0; times < 2; ++times)
    for (const auto coding : {weight_coding::none, weight_coding::exponents}) {
      const auto source = open_weights(
          model_->folder(), config_,
          {.dtype = dtype_choice::bfloat16, .coding = coding, .cache = {.folder = scratch_.path()}});
      EXPECT_EQ(source->expert(1, 0).down.format(), coding == weight_coding::none
                                                        ? kernels::packed_format::bf16_pair
                                                        : kernels::packed_format::bf16_coded);
    }
  const auto files = std::filesystem::directory_iterator(scratch_.path());
  EXPECT_EQ(std::count_if(begin(files), end(files),
                          [](const auto& entry) { return entry.path().extension() == ".troupe"; }),
            2);
}

TEST_F(packed_weights, quantized_models_give_a_sequence_the_same_bits_in_any_company) {
  kernels::thread_pool pool({.threads = 2});
  kernels::thread_pool one({.threads = 1});
  const std::vector<std::uint32_t> prompt{3, 14, 15, 92, 65, 35, 89};
  for (const auto& quant : all_quants) {
    SCOPED_TRACE(quant.name());
    const auto source = checkpoint_with(quant);
    kernels::context reference(one, kernels::isa::portable);
    const auto alone = test::batch_runner(reference, source).run({{0, prompt}});
    kernels::context ctx(pool);
    std::vector<test::batch_part> parts{{0, prompt}};
    for (std::uint32_t other = 1; other < 6; ++other)
      parts.push_back({other, {other, 7, 9 + other, 50, 51, 52, 60 + other}});
    const auto together = test::batch_runner(ctx, source, 2).run(parts);
    for (std::size_t r = 0; r < prompt.size(); ++r)
      EXPECT_EQ(together[r], alone[r]);
    auto chunked = test::batch_runner(ctx, source);
    for (std::size_t r = 0; r < prompt.size(); ++r)
      EXPECT_EQ(chunked.run({{0, {prompt[r]}}}).front(), alone[r]);
  }
}

TEST_F(packed_weights, are_the_same_bytes_whatever_the_threads) {
  const auto source = checkpoint_with(all_quants[3]);
  write_packed(*source, scratch_.path() / "one", 1);
  write_packed(*source, scratch_.path() / "four", 4);
  EXPECT_EQ(read_file(scratch_.path() / "one"), read_file(scratch_.path() / "four"));
}

TEST_F(packed_weights, an_expert_is_one_extent_of_its_own) {
  const auto source = checkpoint_with(all_quants[1]);
  write_packed(*source, file(), 1);
  const auto packed = packed_source::open(file(), config_);
  const auto bytes = packed->expert_bytes(1, 5);
  const auto expert = source->expert(1, 5);
  ASSERT_EQ(bytes.size(), expert.gate_up.bytes().size() + expert.down.bytes().size());
  EXPECT_EQ(std::memcmp(bytes.data(), expert.gate_up.bytes().data(), expert.gate_up.bytes().size()), 0);
  EXPECT_EQ(error_of([&] { packed->expert_bytes(0, 0); }),
            file().string() + ": extent 'layers.0.experts.0' is missing");
}

// A computation that is under way keeps using what was given, and the same expert may be asked for meanwhile.
TEST_F(packed_weights, a_copied_expert_stays_whole_when_it_is_forgotten) {
  const auto source = checkpoint_with(all_quants[1]);
  write_packed(*source, file(), 1);
  const auto packed = packed_source::open(file(), config_, {}, weight_memory::copied);
  const auto expected = source->expert(1, 5);
  const auto same = [&](const kernels::expert_weights& expert) {
    return std::ranges::equal(expert.gate_up.bytes(), expected.gate_up.bytes())
           && std::ranges::equal(expert.down.bytes(), expected.down.bytes());
  };
  const auto used = packed->expert(1, 5);
  EXPECT_NE(static_cast<const void*>(used.gate_up.bytes().data()),
            static_cast<const void*>(packed->expert_bytes(1, 5).data()));
  packed->forget(1, 5);
  EXPECT_TRUE(same(used));
  const auto again = packed->expert(1, 5);
  EXPECT_TRUE(same(again));
  EXPECT_NE(again.gate_up.bytes().data(), used.gate_up.bytes().data());
}

TEST_F(packed_weights, quantized_ones_are_smaller) {
  const auto size_with = [&](const quantization& quant) {
    write_packed(*checkpoint_with(quant), file(), 1);
    return packed_source::open(file(), config_)->expert_bytes(1, 0).size();
  };
  const auto bf16 = size_with(all_quants[0]);
  EXPECT_LT(size_with(all_quants[1]), bf16 * 6 / 10);
  EXPECT_LT(size_with(all_quants[3]), bf16 * 4 / 10);
}

TEST_F(packed_weights, a_file_that_is_cut_short_anywhere_is_refused) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  const auto whole = read_file(file());
  for (const std::size_t size : {std::size_t{1}, std::size_t{7}, std::size_t{63}, std::size_t{64},
                                 std::size_t{5000}, whole.size() / 2, whole.size() - 1}) {
    write_file(file(), whole.substr(0, size));
    EXPECT_THAT(error_of([&] { open_and_read(); }),
                AnyOf(HasSubstr("truncated"), HasSubstr("not a packed weight file")))
        << size;
  }
  write_file(file(), whole + " ");
  EXPECT_THAT(error_of([&] { open_and_read(); }), HasSubstr("truncated or grown"));
}

TEST_F(packed_weights, a_damaged_byte_is_noticed_wherever_it_matters) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  const auto parts = take_apart();
  const auto& whole = parts.bytes;
  // Which bytes are padding between extents, and may be anything, the index says.
  std::vector<bool> used(whole.size(), true);
  std::fill(used.begin() + packed_header::num_bytes,
            used.begin() + static_cast<std::ptrdiff_t>(parts.header.index_offset), false);
  for (const auto& extent : parts.index.extents)
    std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(extent.offset), extent.num_bytes, true);
  std::mt19937 random(1);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < packed_header::num_bytes; ++i)
    places.push_back(i);
  for (int i = 0; i < 60; ++i)
    places.push_back(random() % whole.size());
  for (int i = 0; i < 20; ++i)
    places.push_back(whole.size() - 1 - random() % 4000); // the index
  for (const auto place : places) {
    auto bytes = whole;
    bytes[place] = static_cast<char>(bytes[place] ^ static_cast<char>(1 << random() % 8));
    write_file(file(), bytes);
    const auto error = error_of([&] { open_and_read(); });
    EXPECT_EQ(error.empty(), !used[place]) << place;
    if (!error.empty()) {
      EXPECT_THAT(error, HasSubstr(file().string()));
    }
  }
}

TEST_F(packed_weights, a_damaged_expert_is_named) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  auto whole = take_apart();
  whole.bytes[whole.index.extents.back().offset + 10] ^= 1;
  write_file(file(), whole.bytes);
  const auto packed = packed_source::open(file(), config_);
  EXPECT_EQ(error_of([&] { packed->expert(1, 7); }),
            file().string() + ": extent 'layers.1.experts.7' is damaged: its checksum differs");
  EXPECT_EQ(error_of([&] { packed->expert(1, 6); }), "");
}

TEST_F(packed_weights, hostile_indices_are_refused) {
  write_packed(*checkpoint_with(all_quants[0]), file(), 1);
  const auto whole = take_apart();
  const auto json = whole.bytes.substr(whole.header.index_offset, whole.header.index_bytes);
  const auto with_index = [&](const std::string& text) { return error_with_index(whole, text); };
  EXPECT_EQ(with_index(json), "");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    auto text = json;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return with_index(text.replace(at, from.size(), to));
  };
  EXPECT_THAT(with_index("{"), HasSubstr("index: "));
  EXPECT_THAT(with_index("[]"), HasSubstr("index: "));
  EXPECT_THAT(with_index(std::string(100000, '[')), HasSubstr("index: "));
  EXPECT_THAT(replaced("\"bf16\"", "\"f64\""), HasSubstr("unknown dtype or quantization"));
  EXPECT_THAT(replaced("\"dtype\":\"bf16\"", "\"dtype\":\"int8\""), HasSubstr("unknown dtype"));
  EXPECT_THAT(replaced("\"experts\":\"none\"", "\"experts\":\"int9\""), HasSubstr("unknown dtype"));
  EXPECT_THAT(replaced("\"experts\":\"none\"", "\"experts\":\"int8\""), HasSubstr("is not what config.json"));
  EXPECT_THAT(replaced("\"offset\":4096", "\"offset\":4097"), HasSubstr("not aligned"));
  EXPECT_THAT(replaced("\"offset\":4096", "\"offset\":0"), HasSubstr("not aligned, not inside"));
  EXPECT_THAT(replaced("\"offset\":4096", "\"offset\":18446744073709547520"), HasSubstr("not inside"));
  EXPECT_THAT(replaced("\"offset\":4096", "\"offset\":-4096"), HasSubstr("'"));
  EXPECT_THAT(replaced("\"kind\":\"mlp\"", "\"kind\":\"vector\""), HasSubstr("do not agree"));
  EXPECT_THAT(replaced("\"kind\":\"mlp\"", "\"kind\":\"lmp\""), HasSubstr("unknown kind"));
  EXPECT_THAT(replaced("\"name\":\"layers.1.experts.0\"", "\"name\":\"layers.1.experts.1\""),
              HasSubstr("listed twice"));
  EXPECT_THAT(replaced("\"name\":\"layers.1.experts.0\"", "\"name\":\"layers.1.experts.77\""),
              HasSubstr("'layers.1.experts.0' is missing"));
  EXPECT_THAT(replaced("\"shape\":[", "\"shape\":[4294967296,4294967296,"), HasSubstr("do not agree"));
}

TEST_F(packed_weights, another_version_or_another_config_is_refused) {
  write_packed(*checkpoint_with(all_quants[0]), file(), 1);
  auto bytes = read_file(file());
  bytes[8] = packed_file_version + 1;
  write_file(scratch_.path() / "newer", bytes);
  EXPECT_EQ(error_of([&] { packed_source::open(scratch_.path() / "newer", config_); }),
            (scratch_.path() / "newer").string()
                + ": format version 3, this program reads version 2: pack the model again");
  config_.canonical_json += " ";
  EXPECT_THAT(error_of([&] { packed_source::open(file(), config_); }),
              HasSubstr("config.json is not the one"));
}

TEST_F(packed_weights, another_arithmetic_revision_is_refused) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  auto whole = take_apart();
  EXPECT_EQ(whole.header.arithmetic_revision, kernels::arithmetic_revision);
  whole.header.arithmetic_revision = kernels::arithmetic_revision + 1;
  EXPECT_EQ(error_with_index(whole, encode(whole.index)),
            file().string() + ": packed with arithmetic revision "
                + std::to_string(kernels::arithmetic_revision + 1) + ", this program has revision "
                + std::to_string(kernels::arithmetic_revision) + ": pack the model again");
  // What was written before there were revisions has a zero in that place.
  whole.header.arithmetic_revision = 0;
  EXPECT_THAT(error_with_index(whole, encode(whole.index)), HasSubstr("packed with arithmetic revision 0"));
}

// While it is mapped: reading past its end would end the process.
TEST_F(packed_weights, a_file_that_is_cut_short_while_it_is_in_use_is_an_error) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  const auto packed = packed_source::open(file(), config_);
  packed->expert(1, 5);
  std::filesystem::resize_file(file(), 4096);
  EXPECT_EQ(error_of([&] { packed->expert(1, 6); }),
            file().string()
                + ": extent 'layers.1.experts.6' cannot be read: the file has been cut short since it was "
                  "opened, or "
                  "its disk fails");
}

TEST_F(packed_weights, a_file_that_is_written_to_while_it_is_in_use_is_an_error) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  const auto packed = packed_source::open(file(), config_);
  const auto written = std::filesystem::last_write_time(file());
  std::filesystem::last_write_time(file(), written + std::chrono::seconds{1});
  packed->expert(1, 5); // the same bytes all the same
  const auto whole = take_apart();
  for (const auto& extent : whole.index.extents)
    if (extent.name == "layers.1.experts.6") {
      std::fstream out(file(), std::ios::binary | std::ios::in | std::ios::out);
      out.seekp(static_cast<std::streamoff>(extent.offset));
      out.put(static_cast<char>(whole.bytes[extent.offset] ^ 1));
    }
  std::filesystem::last_write_time(file(), written + std::chrono::seconds{1});
  EXPECT_EQ(
      error_of([&] { packed->expert(1, 6); }),
      file().string()
          + ": extent 'layers.1.experts.6' is damaged: its checksum differs; the file has been written to "
            "since it was opened");
}

TEST_F(packed_weights, a_full_disk_leaves_nothing_behind) {
  const auto source = checkpoint_with(all_quants[0]);

  struct rlimit before {};

  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 20000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto error = error_of([&] { write_packed(*source, file(), 1); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  EXPECT_EQ(error, "cannot write " + file().string() + ": File too large");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(packed_weights, a_packed_folder_must_hold_what_is_asked_for) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  const auto open = [&](dtype_choice dtype, const quantization& quant) {
    return open_weights(scratch_.path(), config_, {.dtype = dtype, .quant = quant});
  };
  EXPECT_EQ(open(dtype_choice::automatic, {})->quant(), all_quants[1]);
  EXPECT_EQ(open(dtype_choice::bfloat16, all_quants[2])->quant(), all_quants[2]);
  EXPECT_EQ(error_of([&] { open(dtype_choice::float32, {}); }),
            file().string() + ": packed for bf16 activations, asked for f32");
  EXPECT_EQ(error_of([&] { open(dtype_choice::automatic, all_quants[3]); }),
            file().string() + ": packed as int8, asked for int4-group32");
  const auto exactly = [&](bool experts_as_packed, bool dense_as_packed) {
    return open_weights(scratch_.path(), config_,
                        {.experts_as_packed = experts_as_packed, .dense_as_packed = dense_as_packed});
  };
  EXPECT_EQ(exactly(true, false)->quant(), all_quants[1]);
  EXPECT_EQ(error_of([&] { exactly(false, true); }), file().string() + ": packed as int8, asked for none");
}

} // namespace
} // namespace troupe::model
