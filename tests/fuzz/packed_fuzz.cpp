// Hostile packed weight files give one clear error, or weights that lie inside the file.
//
// The input is the index, as JSON, after four bytes that select further faults. The file is laid out around
// it: header, pages of zeros or, from 128 on in the second byte, of ones (which are an empty list of
// exceptions), index. Checksums written as "ok" are replaced by correct ones, so that an input gets past
// them.
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/model/packed_source.hpp"
#include "kernels/model/required_tensors.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace troupe::model;

constexpr std::size_t page = 4096;

enum damage : std::uint8_t {
  none,
  cut_short,
  header_byte,
  header_byte_with_checksum,
  extent_byte,
  index_byte,
  kinds
};

const model_config& config() {
  static const auto result =
      parse_config(R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
    "vocab_size": 16, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "num_local_experts": 2, "num_experts_per_tok": 1, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false})",
                   "config.json");
  return result;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::byte filling(std::span<const std::uint8_t, 4> choice) {
  return static_cast<std::byte>(choice[1] < 128 ? 0 : 0xff);
}

/// The index with correct checksums where it asks for them; a text that is no index is unchanged.
std::string with_checksums(std::string text, std::byte fill) {
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object())
    return text;
  const nlohmann::ordered_json ok = "ok";
  if (json.value("config_checksum", nlohmann::ordered_json{}) == ok)
    json["config_checksum"] = hex(checksum_of(config().canonical_json));
  if (json.contains("extents") && json["extents"].is_array())
    for (auto& extent : json["extents"]) {
      if (!extent.is_object() || extent.value("checksum", nlohmann::ordered_json{}) != ok
          || !extent.contains("bytes") || !extent["bytes"].is_number_unsigned())
        continue;
      const std::vector<std::byte> bytes(
          std::min<std::uint64_t>(extent["bytes"].get<std::uint64_t>(), 64 * page), fill);
      extent["checksum"] = hex(checksum_of(bytes));
    }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<std::byte> file_of(std::span<const std::uint8_t, 4> choice, const std::string& index) {
  const std::size_t index_at = (1 + choice[0] % 64) * page;
  const auto index_bytes = std::as_bytes(std::span{index});
  std::vector<std::byte> file(index_at + index.size(), filling(choice));
  packed_header header{index_at, index.size(), checksum_of(index_bytes), file.size()};
  std::copy(index_bytes.begin(), index_bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(index_at));
  auto start = header.encode();
  const auto value = static_cast<std::byte>(choice[3]);
  const auto kind = choice[1] % kinds;
  if (kind == header_byte || kind == header_byte_with_checksum)
    start[choice[2] % packed_header::num_bytes] = value;
  if (kind == header_byte_with_checksum) {
    constexpr std::size_t checksum_at = packed_header::num_bytes - sizeof(std::uint64_t);
    const auto checksum = checksum_of(std::span<const std::byte>(start).first(checksum_at));
    for (std::size_t i = 0; i < sizeof checksum; ++i)
      start[checksum_at + i] = static_cast<std::byte>(checksum >> 8 * i);
  }
  std::copy(start.begin(), start.end(), file.begin());
  if (kind == extent_byte && index_at > page)
    file[page + choice[2] * page / 4 % (index_at - page)] = value;
  if (kind == index_byte && !index.empty())
    file[index_at + choice[2] * index.size() / 256] = value;
  if (kind == cut_short)
    file.resize(file.size() * choice[2] / 256);
  return file;
}

/// Calls must succeed, or fail with one line that names the file.
template <class Ask>
void ask_or_refuse(const std::string& path, Ask ask) {
  try {
    ask();
  } catch (const model_error& error) {
    const std::string what = error.what();
    if (what.find(path) == std::string::npos || what.find('\n') != std::string::npos)
      std::abort();
  }
}

void read(std::span<const std::byte> bytes) {
  static volatile std::uint64_t sink = 0;
  sink = sink + checksum_of(bytes);
}

void read(const troupe::kernels::packed_matrix& weights) {
  read(weights.bytes());
  std::vector<float> row(weights.inputs());
  weights.unpack_row(weights.outputs() - 1, row);
  read(std::as_bytes(std::span{row}));
}

void read(const troupe::kernels::expert_weights& weights) {
  read(weights.gate_up);
  read(weights.down);
}

void read_everything(const packed_source& source, const std::string& path) {
  ask_or_refuse(path, [&] {
    const auto embeddings = source.embeddings();
    read({embeddings.rows.data, embeddings.num_bytes()});
  });
  std::vector<troupe::model::matrix_ref> matrices{{.parts = {config().lm_head}}};
  for (const auto& op : config().layers.front().operations)
    if (const auto* project = std::get_if<troupe::model::project_op>(&op))
      matrices.push_back(project->matrix);
    else if (const auto* route = std::get_if<troupe::model::route_op>(&op))
      matrices.push_back(route->matrix);
  for (const auto& matrix : matrices)
    ask_or_refuse(path, [&] { read(source.matrix(matrix)); });
  for (const auto& tensor : dense_tensors(config()))
    if (tensor.shape.size() == 1)
      ask_or_refuse(path, [&] {
        const auto values = source.floats(tensor);
        read(std::as_bytes(std::span{values}));
      });
  for (std::size_t expert = 0; expert < 2; ++expert) {
    ask_or_refuse(path, [&] { read(source.expert(0, expert)); });
    ask_or_refuse(path, [&] { read(source.expert_bytes(0, expert)); });
    source.forget(0, expert);
  }
}

} // namespace

// Packed files are read, nothing is quantized: so no kernels, which take minutes to build with coverage.
const troupe::kernels::kernel_table& troupe::kernels::table_of(isa) {
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4)
    return 0;
  static const int descriptor = ::memfd_create("packed_fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const auto choice = std::span{data, size}.first<4>();
  const auto file =
      file_of(choice, with_checksums({reinterpret_cast<const char*>(data) + 4, size - 4}, filling(choice)));
  if (::ftruncate(descriptor, 0) != 0
      || ::pwrite(descriptor, file.data(), file.size(), 0) != static_cast<ssize_t>(file.size()))
    std::abort();
  ask_or_refuse(path, [&] { read_everything(*packed_source::open(path, config()), path); });
  return 0;
}
