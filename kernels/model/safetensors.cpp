#include "kernels/model/safetensors.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace troupe::model {

namespace {

// The format's own limit (safetensors, MAX_HEADER_SIZE).
constexpr std::uint64_t max_header_bytes = 100'000'000;
constexpr std::size_t length_bytes = 8;
constexpr std::size_t max_rank = 8;
// Names of published tensors stay below 100; this bounds the quotes in messages.
constexpr std::size_t max_name_bytes = 512;
constexpr std::size_t max_type_bytes = 32;

storage_dtype dtype_from(std::string_view name) {
  for (const auto type : {storage_dtype::float32, storage_dtype::float16, storage_dtype::bfloat16})
    if (name == to_string(type))
      return type;
  return storage_dtype::other;
}

struct dtype_bits {
  std::string_view name;
  std::uint64_t bits;
};

// The format's list (safetensors, Dtype). Newer files may have other types, whose size is not checked.
constexpr dtype_bits known_dtypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8},     {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"F8_E4M3FNUZ", 8}, {"U16", 16},
    {"F8_E5M2FNUZ", 8}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},        {"F32", 32},
    {"C64", 64},        {"F64", 64},    {"I64", 64},    {"U64", 64},
};

/// Builds entries directly from the parser's events, so that an untrusted header costs no more memory than
/// its tensors.
class header_reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit header_reader(const std::string& file_name) : file_name_(file_name) {}

  std::vector<tensor_entry> take() { return std::move(entries_); }

  bool null() override { unexpected("null"); }

  bool boolean(bool) override { unexpected("a boolean"); }

  bool number_integer(number_integer_t) override { unexpected("a negative number"); }

  bool number_float(number_float_t, const string_t&) override { unexpected("a fraction"); }

  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_)
      unexpected("a number");
    auto& numbers = field_ == "shape" ? shape_ : offsets_;
    if (numbers.size() == max_rank)
      fail("'" + field_ + "' has more than " + std::to_string(max_rank) + " numbers");
    numbers.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ != 2 || in_array_)
      unexpected("a string");
    if (in_metadata_)
      return true;
    if (field_ != "dtype")
      unexpected("a string");
    type_ = value.substr(0, max_type_bytes);
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ == 2 || in_array_)
      unexpected("an object");
    ++depth_;
    return true;
  }

  bool key(string_t& name) override {
    if (depth_ == 1) {
      name_ = name.substr(0, max_name_bytes);
      in_metadata_ = name == "__metadata__";
      if (name.size() > max_name_bytes)
        fail("the name is " + std::to_string(name.size()) + " bytes long");
      if (!names_.insert(name).second)
        fail("is given twice");
      fields_.clear();
      type_.clear();
      shape_.clear();
      offsets_.clear();
    } else if (!in_metadata_) {
      field_ = name;
      if (name != "dtype" && name != "shape" && name != "data_offsets")
        fail("unknown field '" + name.substr(0, 64) + "'");
      if (!fields_.insert(name).second)
        fail("field '" + name + "' is given twice");
    }
    return true;
  }

  bool end_object() override {
    --depth_;
    if (depth_ == 1 && !in_metadata_)
      finish_tensor();
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_array_ || in_metadata_ || field_ == "dtype")
      unexpected("a list");
    in_array_ = true;
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    throw model_error(file_name_ + ": header is not valid JSON: " + std::string{e.what()}.substr(0, 200));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw model_error(file_name_ + ": tensor '" + name_ + "': " + what);
  }

  [[noreturn]] void unexpected(const std::string& what) const {
    if (depth_ == 0)
      throw model_error(file_name_ + ": header must be a JSON object, found " + what);
    fail("unexpected " + what);
  }

  void finish_tensor() {
    if (fields_.size() != 3)
      fail("needs dtype, shape and data_offsets");
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1])
      fail("data_offsets must be [begin, end]");
    const auto* known = std::ranges::find(known_dtypes, type_, &dtype_bits::name);
    std::uint64_t bits = known == std::end(known_dtypes) ? 0 : known->bits;
    const bool is_known = bits != 0;
    for (const auto dim : shape_)
      if (__builtin_mul_overflow(bits, dim, &bits))
        fail("shape has more elements than can be counted");
    if (const auto expected = bits / 8 + (bits % 8 == 0 ? 0 : 1);
        is_known && offsets_[1] - offsets_[0] != expected)
      fail("shape and dtype take " + std::to_string(expected) + " bytes, data_offsets give "
           + std::to_string(offsets_[1] - offsets_[0]));
    entries_.push_back(
        {name_, dtype_from(type_), type_, {shape_.begin(), shape_.end()}, offsets_[0], offsets_[1]});
  }

  const std::string& file_name_;
  std::vector<tensor_entry> entries_;
  std::unordered_set<std::string> names_;
  int depth_ = 0;
  bool in_array_ = false;
  bool in_metadata_ = false;
  // The tensor being read.
  std::string name_;
  std::string field_;
  std::unordered_set<std::string> fields_;
  std::string type_;
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> offsets_;
};

/// Checks that the tensors cover the data exactly, and converts offsets to positions in the file.
void place(std::vector<tensor_entry>& entries, std::uint64_t data_begin, std::uint64_t file_bytes,
           const std::string& file_name) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair{a.begin, a.end} < std::pair{b.begin, b.end};
  });
  const auto data_bytes = file_bytes - data_begin;
  std::uint64_t end = 0;
  for (auto& entry : entries) {
    if (entry.end > data_bytes)
      throw model_error(file_name + ": truncated: tensor '" + entry.name + "' ends at byte "
                        + std::to_string(entry.end) + " of the data, the file has "
                        + std::to_string(data_bytes));
    if (entry.begin != end)
      throw model_error(file_name + ": tensor '" + entry.name + "' begins at byte "
                        + std::to_string(entry.begin) + " of the data, "
                        + (entry.begin < end ? "inside" : "behind a gap after") + " the tensor that ends at "
                        + std::to_string(end));
    end = entry.end;
    entry.begin += data_begin;
    entry.end += data_begin;
  }
  if (end != data_bytes)
    throw model_error(file_name + ": " + std::to_string(data_bytes) + " bytes of data, its tensors take "
                      + std::to_string(end));
}

} // namespace

std::string_view to_string(storage_dtype type) noexcept {
  switch (type) {
  case storage_dtype::float32:
    return "F32";
  case storage_dtype::float16:
    return "F16";
  case storage_dtype::bfloat16:
    return "BF16";
  case storage_dtype::other:
    break;
  }
  return "?";
}

std::size_t safetensors_header_bytes(std::span<const std::byte> start, std::uint64_t file_bytes,
                                     const std::string& file_name) {
  if (file_bytes < length_bytes || start.size() < length_bytes)
    throw model_error(file_name + ": truncated: " + std::to_string(file_bytes)
                      + " bytes, expected at least the 8 of the header's length");
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < length_bytes; ++i)
    header_bytes |= std::to_integer<std::uint64_t>(start[i]) << (8 * i);
  if (header_bytes > max_header_bytes)
    throw model_error(file_name + ": header of " + std::to_string(header_bytes) + " bytes, at most "
                      + std::to_string(max_header_bytes) + " are allowed (is this a safetensors file?)");
  if (header_bytes > file_bytes - length_bytes)
    throw model_error(file_name + ": truncated: header of " + std::to_string(header_bytes)
                      + " bytes, the file has " + std::to_string(file_bytes - length_bytes)
                      + " after its length");
  return length_bytes + header_bytes;
}

std::vector<tensor_entry> parse_safetensors(std::span<const std::byte> start, std::uint64_t file_bytes,
                                            const std::string& file_name) {
  const auto data_begin = safetensors_header_bytes(start, file_bytes, file_name);
  const auto text = start.first(data_begin).subspan(length_bytes);
  const std::string_view header{reinterpret_cast<const char*>(text.data()), text.size()};
  if (!header.starts_with('{'))
    throw model_error(file_name + ": header does not start with '{' (is this a safetensors file?)");
  header_reader reader(file_name);
  nlohmann::json::sax_parse(header.begin(), header.end(), &reader);
  auto entries = reader.take();
  place(entries, data_begin, file_bytes, file_name);
  return entries;
}

} // namespace troupe::model
