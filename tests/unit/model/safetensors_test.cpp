#include "kernels/model/safetensors.hpp"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A file with that header and N bytes of data.
std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  std::vector<std::byte> file(8 + header.size() + data_bytes);
  for (std::size_t i = 0; i < 8; ++i)
    file[i] = static_cast<std::byte>((header.size() >> (8 * i)) & 0xff);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

std::string refusal(std::span<const std::byte> file) {
  try {
    parse_safetensors(file, file.size(), "w.safetensors");
  } catch (const model_error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(safetensors, reads_tensors_in_the_order_of_their_data) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"c":{"dtype":"F16","shape":[0,9],"data_offsets":[16,16]}}  )";
  const auto file = file_of(header, 16);
  const auto tensors = parse_safetensors(file, file.size(), "w.safetensors");
  ASSERT_EQ(tensors.size(), 3U);
  const auto data = 8 + header.size();
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].type, storage_dtype::float32);
  EXPECT_TRUE(tensors[0].shape.empty());
  EXPECT_EQ(tensors[0].begin, data);
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_THAT(tensors[1].shape, ElementsAre(2U, 3U));
  EXPECT_EQ(tensors[1].end, data + 16);
  EXPECT_EQ(tensors[2].type, storage_dtype::float16);
}

TEST(safetensors, types_that_no_weight_may_have_keep_their_name) {
  const std::string header = R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"I64","shape":[1],"data_offsets":[4,12]},)"
                             R"("c":{"dtype":"E5M9","shape":[9],"data_offsets":[12,13]},)"
                             R"("d":{"dtype":"BF16","shape":[1],"data_offsets":[13,15]}})";
  const auto file = file_of(header, 15);
  const auto tensors = parse_safetensors(file, file.size(), "w.safetensors");
  std::vector<std::string> types;
  for (const auto& tensor : tensors) {
    types.push_back(tensor.type_name);
    EXPECT_EQ(tensor.type, tensor.name == "d" ? storage_dtype::bfloat16 : storage_dtype::other);
  }
  EXPECT_THAT(types, ElementsAre("F8_E4M3", "I64", "E5M9", "BF16"));
}

TEST(safetensors, every_truncation_is_refused) {
  const auto whole = file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  ASSERT_EQ(refusal(whole), "accepted");
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THAT(refusal(std::span{whole}.first(n)), HasSubstr("w.safetensors: truncated: ")) << n;
}

TEST(safetensors, truncation_names_the_tensor_and_both_sizes) {
  const auto whole = file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(refusal(std::span{whole}.first(whole.size() - 3)),
            "w.safetensors: truncated: tensor 'a' ends at byte 8 of the data, the file has 5");
}

TEST(safetensors, a_header_longer_than_allowed_or_than_the_file) {
  auto file = file_of("{}", 0);
  file[7] = std::byte{0xff};
  EXPECT_THAT(refusal(file), HasSubstr("at most 100000000 are allowed"));
  file[7] = std::byte{0};
  file[1] = std::byte{1};
  EXPECT_THAT(refusal(file), HasSubstr("truncated: header of 258 bytes, the file has 2"));
}

struct bad_header {
  const char* header;
  std::size_t data_bytes;
  const char* message;
};

void PrintTo(const bad_header& b, std::ostream* out) {
  *out << b.header;
}

class hostile_header : public testing::TestWithParam<bad_header> {};

TEST_P(hostile_header, gets_one_clear_error) {
  const auto message = refusal(file_of(GetParam().header, GetParam().data_bytes));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
  EXPECT_THAT(message, HasSubstr("w.safetensors: "));
}

INSTANTIATE_TEST_SUITE_P(
    safetensors, hostile_header,
    testing::Values(
        bad_header{"", 0, "does not start with '{'"}, bad_header{"[]", 0, "does not start with '{'"},
        bad_header{"PK\x03\x04 not a model", 0, "does not start with '{'"},
        bad_header{"{\"a\":", 0, "header is not valid JSON"},
        bad_header{"{} trailing", 0, "header is not valid JSON"},
        bad_header{"{\"a\":1}", 0, "tensor 'a': unexpected a number"},
        bad_header{"{\"a\":null}", 0, "tensor 'a': unexpected null"},
        bad_header{"{\"a\":[]}", 0, "tensor 'a': unexpected a list"},
        bad_header{"{\"a\":{}}", 0, "tensor 'a': needs dtype, shape and data_offsets"},
        bad_header{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "unknown field 'x'"},
        bad_header{R"({"a":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}})", 4,
                   "field 'dtype' is given twice"},
        bad_header{R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,8]}})", 8,
                   "shape and dtype take 4 bytes, data_offsets give 8"},
        bad_header{R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1,
                   "shape and dtype take 2 bytes, data_offsets give 1"},
        bad_header{R"({"a":{"dtype":7,"shape":[4],"data_offsets":[0,4]}})", 4,
                   "tensor 'a': unexpected a number"},
        bad_header{R"({"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", 4, "unexpected a list"},
        bad_header{R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
                   "unexpected a negative number"},
        bad_header{R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "unexpected a fraction"},
        bad_header{R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "unexpected a list"},
        bad_header{R"({"a":{"dtype":"F32","shape":[{}],"data_offsets":[0,4]}})", 4, "unexpected an object"},
        bad_header{R"({"a":{"dtype":"F32","shape":{"x":1},"data_offsets":[0,4]}})", 4,
                   "unexpected an object"},
        bad_header{R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4,
                   "more than 8 numbers"},
        bad_header{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "must be [begin, end]"},
        bad_header{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "must be [begin, end]"},
        bad_header{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
                   "shape and dtype take 8 bytes, data_offsets give 4"},
        bad_header{R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                   "more elements than can be counted"},
        bad_header{R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0,
                   "more elements than can be counted"},
        bad_header{
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551616]}})",
            4, "unexpected a fraction"},
        bad_header{
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551611,18446744073709551615]}})",
            4, "truncated: tensor 'a' ends at byte 18446744073709551615"},
        bad_header{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32"}})", 4,
                   "tensor 'a': is given twice"},
        bad_header{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                   6, "tensor 'b' begins at byte 2 of the data, inside the tensor that ends at 4"},
        bad_header{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
                   "begins at byte 4 of the data, behind a gap"},
        bad_header{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 9,
                   "9 bytes of data, its tensors take 4"}));

TEST(safetensors, deep_nesting_and_long_names_are_refused) {
  EXPECT_THAT(refusal(file_of("{\"a\":" + std::string(200'000, '['), 0)), HasSubstr("unexpected a list"));
  EXPECT_THAT(refusal(file_of("{\"" + std::string(4096, 'n') + "\":{}}", 0)), HasSubstr("4096 bytes long"));
}

} // namespace
} // namespace troupe::model
