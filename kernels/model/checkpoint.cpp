#include "kernels/model/checkpoint.hpp"

#include "kernels/model/hex.hpp"
#include "kernels/model/json_object.hpp"
#include "kernels/model/text_file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>

namespace troupe::model {

namespace {

constexpr const char* single_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";
constexpr std::size_t max_index_bytes = std::size_t{256} << 20;

/// tensor name → file name
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const auto json = json_object::parse(read_text_file(path, max_index_bytes), path.string(), max_index_bytes);
  const auto map = json.object("weight_map");
  if (!map)
    json.fail("weight_map", "is missing");
  std::map<std::string, std::string> result;
  for (const auto& tensor : map->keys()) {
    auto file = map->at<std::string>(tensor);
    // A name, not a path: an index must not refer to files outside its folder.
    if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos
        || file.find('\0') != std::string::npos)
      map->fail(tensor, "names '" + file.substr(0, 200) + "', which is no file name");
    result.emplace(tensor, std::move(file));
  }
  if (result.empty())
    json.fail("weight_map", "is empty");
  return result;
}

/// Throws if reading a tensor's bytes would give wrong ones, or end the process.
/// @param file       the tensor's file
/// @param has_pages  whether the tensor's wanted pages are available
void require_readable(const mapped_file& file, const std::string& tensor, bool has_pages) {
  const char* why = file.is_cut_short() ? "the file has been cut short since it was opened"
                    : !has_pages ? "the file has been cut short or replaced in place, or its disk fails"
                    : file.is_written_to()
                        ? "the file has been written to since it was opened: put a new file in the "
                          "place of an old one by renaming, and start again"
                        : nullptr;
  if (why != nullptr)
    throw model_error(file.path().string() + ": tensor '" + tensor + "' cannot be read: " + why);
}

} // namespace

void checkpoint::add_file(const std::filesystem::path& path) {
  mapped_file file(path);
  const auto num_bytes = file.bytes().size();
  std::vector<std::byte> start(std::min<std::size_t>(num_bytes, 8));
  const auto read_start = [&](std::size_t from) {
    if (!file.read_at(from, std::span{start}.subspan(from)))
      throw model_error(path.string()
                        + ": the header cannot be read: the file has been cut short, or its disk fails");
  };
  read_start(0);
  start.resize(safetensors_header_bytes(start, num_bytes, path.string()));
  read_start(std::min<std::size_t>(num_bytes, 8));
  auto entries = parse_safetensors(start, num_bytes, path.string());
  shards_.push_back(std::make_unique<const shard>(shard{std::move(file), std::move(entries)}));
  const auto& added = *shards_.back();
  for (const auto& entry : added.entries) {
    const tensor_ref ref{entry.type, entry.shape, added.file.bytes().data() + entry.begin,
                         static_cast<std::size_t>(entry.end - entry.begin)};
    if (!tensors_.emplace(entry.name, ref).second)
      throw model_error(path.string() + ": tensor '" + entry.name
                        + "' is in another file of the checkpoint too");
  }
}

checkpoint checkpoint::open(const std::filesystem::path& folder) {
  checkpoint result;
  result.folder_ = folder;
  if (!std::filesystem::is_directory(folder))
    throw model_error(folder.string() + ": not a folder");
  if (std::filesystem::exists(folder / single_file)) {
    result.add_file(folder / single_file);
    return result;
  }
  if (!std::filesystem::exists(folder / index_file))
    throw model_error(folder.string() + ": neither " + single_file + " nor " + index_file);
  const auto index = read_index(folder / index_file);
  std::set<std::string> files;
  for (const auto& [tensor, file] : index)
    files.insert(file);
  for (const auto& file : files)
    result.add_file(folder / file);
  for (const auto& [tensor, file] : index)
    if (result.find(tensor) == nullptr)
      result.listed_only_.emplace(tensor, file);
  return result;
}

const tensor_ref* checkpoint::find(const std::string& name) const noexcept {
  if (const auto i = tensors_.find(name); i != tensors_.end())
    return &i->second;
  const auto alias = aliases_.find(name);
  return alias == aliases_.end() ? nullptr : &alias->second;
}

const tensor_ref& checkpoint::at(const std::string& name) const {
  const auto* found = find(name);
  if (found == nullptr)
    throw model_error(folder_.string() + ": tensor '" + name + "' is missing");
  return *found;
}

const tensor_ref& checkpoint::read(const std::string& name) const {
  const auto& tensor = at(name);
  if (const auto* file = file_with(tensor))
    require_readable(*file, name, populate_pages({tensor.data, tensor.num_bytes}));
  return tensor;
}

const std::filesystem::path& checkpoint::file_of(const tensor_ref& tensor) const {
  const auto* file = file_with(tensor);
  return file == nullptr ? folder_ : file->path();
}

const mapped_file* checkpoint::file_with(const tensor_ref& tensor) const {
  const auto holds = [&](const std::unique_ptr<const shard>& s) {
    const auto bytes = s->file.bytes();
    return tensor.data >= bytes.data() && tensor.data < bytes.data() + bytes.size();
  };
  const auto found = std::ranges::find_if(shards_, holds);
  return found == shards_.end() ? nullptr : &(*found)->file;
}

std::vector<const mapped_file*> checkpoint::files() const {
  std::vector<const mapped_file*> result;
  for (const auto& s : shards_)
    result.push_back(&s->file);
  return result;
}

std::string checkpoint::fingerprint(const model_config& config) const {
  // FNV-1a, 128 bit (Fowler, Noll, Vo; draft-eastlake-fnv): stable, and sufficient against accidents.
  __extension__ using wide = unsigned __int128;
  constexpr auto prime = (wide{0x0000000001000000} << 64) | 0x000000000000013b;
  auto hash = (wide{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;
  const auto add_bytes = [&](std::span<const std::byte> bytes) {
    for (const auto byte : bytes)
      hash = (hash ^ std::to_integer<unsigned>(byte)) * prime;
  };
  const auto add_text = [&](const std::string& text) {
    // The terminating zero separates neighbours.
    add_bytes(std::as_bytes(std::span{text.c_str(), text.size() + 1}));
  };
  add_text(config.canonical_json);
  for (const auto& s : shards_) {
    const auto bytes = s->file.bytes();
    add_text(std::to_string(bytes.size()));
    for (const auto& entry : s->entries) {
      add_text(entry.name);
      add_text(entry.type_name);
      for (const auto dim : entry.shape)
        add_text(std::to_string(dim));
      add_text(std::to_string(entry.begin));
    }
    // Fine-tunes of one model share every header, and may share most tensors: some values of each tensor
    // distinguish them. All values would mean reading the whole model, even if a worker wants only a few
    // experts.
    constexpr std::size_t most_sampled = 1024;
    constexpr std::size_t on_their_way = 64; // a remote disk answers many requests in the time of one
    const auto sample_of = [most = std::uint64_t{most_sampled}](const tensor_entry& entry) {
      const auto size = std::min(most, entry.end - entry.begin);
      return std::pair{entry.begin + (entry.end - entry.begin - size) / 2, static_cast<std::size_t>(size)};
    };
    const auto& entries = s->entries;
    for (std::size_t i = 0, asked = 0; i < entries.size(); ++i) {
      for (; asked < std::min(i + on_their_way, entries.size()); ++asked) {
        const auto [offset, size] = sample_of(entries[asked]);
        s->file.prefetch_at(offset, size);
      }
      std::array<std::byte, most_sampled> sample;
      const auto [offset, size] = sample_of(entries[i]);
      if (!s->file.read_at(offset, std::span{sample}.first(size)))
        require_readable(s->file, entries[i].name, false);
      add_bytes(std::span{sample}.first(size));
    }
    if (!entries.empty())
      require_readable(s->file, entries.back().name, true);
  }
  return hex_of(static_cast<std::uint64_t>(hash >> 64)) + hex_of(static_cast<std::uint64_t>(hash));
}

} // namespace troupe::model
