#include "kernels/model/checkpoint.hpp"

#include "kernels/model/json_object.hpp"
#include "kernels/model/text_file.hpp"

#include <algorithm>
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
    // A name, not a path: an index must not reach outside its folder.
    if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos
        || file.find('\0') != std::string::npos)
      map->fail(tensor, "names '" + file.substr(0, 200) + "', which is no file name");
    result.emplace(tensor, std::move(file));
  }
  if (result.empty())
    json.fail("weight_map", "is empty");
  return result;
}

/// Throws where reading a tensor's bytes would give others than were there, or end the process.
/// @param file       that it is in
/// @param has_pages  whether the pages that are wanted of the tensor are there
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
  auto entries = parse_safetensors(file.bytes(), path.string());
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

std::string checkpoint::fingerprint(const model_config& config) const {
  // FNV-1a, 128 bit (Fowler, Noll, Vo; draft-eastlake-fnv): stable, and good enough against accidents.
  __extension__ using wide = unsigned __int128;
  constexpr auto prime = (wide{0x0000000001000000} << 64) | 0x000000000000013b;
  auto hash = (wide{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;
  const auto add_bytes = [&](std::span<const std::byte> bytes) {
    for (const auto byte : bytes)
      hash = (hash ^ std::to_integer<unsigned>(byte)) * prime;
  };
  const auto add_text = [&](const std::string& text) {
    // The terminating zero keeps neighbours apart.
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
    // Fine-tunes of one model share every header, and may share most tensors: some values of each tell them
    // apart. All values would take reading the whole model, also where a worker wants a few experts of it.
    constexpr std::size_t most_sampled = 1024;
    for (const auto& entry : s->entries) {
      const auto data = bytes.subspan(entry.begin, entry.end - entry.begin);
      const std::size_t size = std::min(most_sampled, data.size());
      const auto sample = data.subspan((data.size() - size) / 2, size);
      require_readable(s->file, entry.name, populate_sample(sample));
      add_bytes(sample);
    }
  }
  std::string result;
  for (int shift = 124; shift >= 0; shift -= 4)
    result += "0123456789abcdef"[static_cast<unsigned>(hash >> shift) & 15U];
  return result;
}

} // namespace troupe::model
