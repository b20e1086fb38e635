// Damaged packed weight files are reported, and a full disk leaves none behind.
#include "kernels/model/expert_store.hpp"
#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_source.hpp"
#include "tests/unit/model/packed_weights_fixture.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/resource.h>

namespace troupe::model {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

using damaged_packed_weights = packed_weights;

TEST_F(damaged_packed_weights, lists_of_exceptions_that_lead_out_of_a_panel_are_refused) {
  write_packed(*checkpoint_with({}, kernels::dtype::bf16, weight_coding::exponents), file(), 1);
  auto whole = take_apart();
  auto& extent = whole.index.extents.back();
  // The list is not terminated, with all checksums right.
  std::fill_n(whole.bytes.begin() + static_cast<std::ptrdiff_t>(extent.offset) + 64, 64, '\0');
  extent.checksum = checksum_of(std::string_view{whole.bytes}.substr(extent.offset, extent.num_bytes));
  EXPECT_EQ(error_with_index(whole, encode(whole.index)),
            file().string() + ": extent 'layers.1.experts.7' has a panel whose exceptions make no sense");
}

TEST_F(damaged_packed_weights, a_file_that_is_cut_short_anywhere_is_refused) {
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

TEST_F(damaged_packed_weights, a_damaged_byte_is_noticed_wherever_it_matters) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  const auto parts = take_apart();
  const auto& whole = parts.bytes;
  // The index tells which bytes are padding between extents, and may have any value.
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
    if (!error.empty())
      EXPECT_THAT(error, HasSubstr(file().string()));
  }
}

TEST_F(damaged_packed_weights, a_damaged_expert_is_named) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  auto whole = take_apart();
  whole.bytes[whole.index.extents.back().offset + 10] ^= 1;
  write_file(file(), whole.bytes);
  const auto packed = packed_source::open(file(), config_);
  EXPECT_EQ(error_of([&] { packed->expert(1, 7); }),
            file().string() + ": extent 'layers.1.experts.7' is damaged: its checksum differs");
  EXPECT_EQ(error_of([&] { packed->expert(1, 6); }), "");
}

TEST_F(damaged_packed_weights, hostile_indices_are_refused) {
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

TEST_F(damaged_packed_weights, another_version_or_another_config_is_refused) {
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

TEST_F(damaged_packed_weights, another_arithmetic_revision_is_refused) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  auto whole = take_apart();
  EXPECT_EQ(whole.header.arithmetic_revision, kernels::arithmetic_revision);
  whole.header.arithmetic_revision = kernels::arithmetic_revision + 1;
  EXPECT_EQ(error_with_index(whole, encode(whole.index)),
            file().string() + ": packed with arithmetic revision "
                + std::to_string(kernels::arithmetic_revision + 1) + ", this program has revision "
                + std::to_string(kernels::arithmetic_revision) + ": pack the model again");
  // Files from before revisions have a zero there.
  whole.header.arithmetic_revision = 0;
  EXPECT_THAT(error_with_index(whole, encode(whole.index)), HasSubstr("packed with arithmetic revision 0"));
}

// While it is mapped: reading past its end would end the process.

TEST_F(damaged_packed_weights, a_file_that_is_cut_short_while_it_is_in_use_is_an_error) {
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

TEST_F(damaged_packed_weights, a_file_that_is_written_to_while_it_is_in_use_is_an_error) {
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

TEST_F(damaged_packed_weights, a_full_disk_leaves_nothing_behind) {
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

} // namespace
} // namespace troupe::model
