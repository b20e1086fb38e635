// Splits a safetensors file, changes it and writes it again.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

class safetensors_edit {
 public:
  struct tensor {
    std::string name;
    std::string dtype;
    std::vector<std::size_t> shape;
    std::string bytes;
  };

  explicit safetensors_edit(std::filesystem::path path) : path_(std::move(path)) {
    std::ifstream in(path_, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(in), {}};
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    const auto header = nlohmann::json::parse(file.substr(sizeof length, length));
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__") {
        const auto begin = entry["data_offsets"][0].get<std::size_t>();
        const auto end = entry["data_offsets"][1].get<std::size_t>();
        tensors.push_back(
            {name, entry["dtype"], entry["shape"], file.substr(sizeof length + length + begin, end - begin)});
      }
  }

  tensor take(const std::string& name) {
    for (auto i = tensors.begin(); i != tensors.end(); ++i)
      if (i->name == name) {
        auto taken = std::move(*i);
        tensors.erase(i);
        return taken;
      }
    throw std::runtime_error("no tensor " + name);
  }

  void write() const {
    nlohmann::json header;
    std::string data;
    for (const auto& t : tensors) {
      header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}};
      header[t.name]["data_offsets"] = std::vector{data.size(), data.size() + t.bytes.size()};
      data += t.bytes;
    }
    const auto text = header.dump();
    const std::uint64_t length = text.size();
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << text << data;
  }

  std::vector<tensor> tensors;

 private:
  std::filesystem::path path_;
};

} // namespace troupe::test
