#include "services/timeline/trace_reader.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace troupe {

namespace {

/// A thread's text that continues in its next records.
struct open_text {
  std::size_t entry = 0; ///< its event
  std::uint32_t parts = 0;
  std::uint32_t bytes = 0;
};

class file_reader {
 public:
  explicit file_reader(const std::string& file) : in_(file, std::ios::binary) { log_.file = file; }

  trace_log read() {
    trace_file_head head;
    if (!in_ || !take(&head, sizeof(head)))
      fail("it cannot be read, or is empty");
    const trace_file_head expected;
    if (std::memcmp(head.magic, expected.magic, sizeof(head.magic)) != 0)
      fail("it is no trace");
    if (head.version != expected.version)
      fail("it has version " + std::to_string(head.version) + ", and this program reads version "
           + std::to_string(expected.version));
    constexpr std::uint32_t most_json_bytes = 1 << 16;
    std::string json(std::min(head.json_bytes, most_json_bytes), '\0');
    if (!take(json.data(), json.size()))
      fail("its head is cut");
    try {
      log_.process = process_from_json(json);
    } catch (const std::runtime_error& error) {
      fail(error.what());
    }
    trace_chunk_head chunk;
    while (take(&chunk, sizeof(chunk)))
      if (!read_chunk(chunk))
        break;
    return std::move(log_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw std::runtime_error(log_.file + ": " + why); }

  bool take(void* to, std::size_t bytes) {
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    const auto got = static_cast<std::size_t>(in_.gcount());
    if (got > 0 && got < bytes)
      log_.is_cut = true;
    return got == bytes;
  }

  /// False at the end of the usable part.
  bool read_chunk(const trace_chunk_head& chunk) {
    constexpr std::uint32_t most_chunk_bytes = 1U << 28;
    if (chunk.bytes > most_chunk_bytes)
      fail("a chunk of it is damaged");
    switch (chunk.what) {
    case trace_chunk::events:
      return read_events(chunk);
    case trace_chunk::thread: {
      std::string name(chunk.bytes, '\0');
      const bool is_whole = take(name.data(), name.size());
      log_.threads[chunk.thread] = name;
      return is_whole;
    }
    case trace_chunk::dropped: {
      std::uint64_t count = 0;
      if (chunk.bytes != sizeof(count))
        fail("a chunk of it is damaged");
      const bool is_whole = take(&count, sizeof(count));
      log_.dropped += is_whole ? count : 0;
      return is_whole;
    }
    case trace_chunk::full:
      log_.is_full = true;
      return true;
    }
    fail("it has a chunk of an unknown kind");
  }

  bool read_events(const trace_chunk_head& chunk) {
    auto& text = texts_[chunk.thread];
    for (std::uint32_t at = 0; at + sizeof(timeline::event) <= chunk.bytes; at += sizeof(timeline::event)) {
      timeline::event record;
      if (!take(&record, sizeof(record)))
        return false;
      if (text.parts > 0) {
        auto& words = log_.events[text.entry].text;
        words.append(reinterpret_cast<const char*>(&record),
                     std::min<std::size_t>(sizeof(record), text.bytes - words.size()));
        --text.parts;
        continue;
      }
      if (record.text_bytes > timeline::max_text_bytes || record.text_parts > 4)
        fail("an event of it is damaged");
      text = {log_.events.size(), record.text_parts, record.text_bytes};
      log_.events.push_back({record, chunk.thread, {}});
    }
    return true;
  }

  std::ifstream in_;
  trace_log log_;
  std::map<std::uint32_t, open_text> texts_;
};

} // namespace

trace_log read_trace(const std::string& file) {
  return file_reader(file).read();
}

std::vector<trace_log> read_traces(const std::string& dir) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error))
    if (entry.path().extension() == ".trace")
      files.push_back(entry.path().string());
  if (error)
    throw std::runtime_error("cannot read " + dir + ": " + error.message());
  if (files.empty())
    throw std::runtime_error(dir
                             + " has no traces: files that end in .trace, which processes write that were "
                               "started with --trace");
  std::sort(files.begin(), files.end());
  std::vector<trace_log> logs;
  for (const auto& file : files)
    logs.push_back(read_trace(file));
  return logs;
}

} // namespace troupe
