#include "services/timeline/trace_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "actors/timeline/timeline.hpp"
#include "services/options/option_parser.hpp"

namespace troupe {

namespace {

/// How long events wait before they are written: a killed process loses at most these.
constexpr auto round_interval = std::chrono::milliseconds{50};

/// Most files of one process name in a folder.
constexpr int most_files = 1000;

void append(std::vector<char>& to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    to.resize(to.size() + bytes);
    std::memcpy(to.data() + to.size() - bytes, from, bytes);
  }
}

std::string file_name_of(std::string process) {
  std::replace_if(
      process.begin(), process.end(),
      [](char c) {
        return !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '.'
               && c != '_' && c != '-';
      },
      '_');
  return process.empty() || process.front() == '.' ? "process" + process : process;
}

} // namespace

trace_writer::trace_writer(const trace_options& options, const process_log& log)
    : options_(options), log_(log) {
  if (options_.dir.empty())
    return;
  std::error_code error;
  std::filesystem::create_directories(options_.dir, error);
  if (error || access(options_.dir.c_str(), W_OK | X_OK) != 0) {
    throw option_error("--trace: cannot write in " + options_.dir + ": "
                       + (error ? error.message() : std::strerror(errno)));
  }
  rings_ = &timeline::open();
  if (options_.sample > 0)
    timeline::start(options_.sample);
  thread_ = std::thread([this] { run(); });
}

trace_writer::~trace_writer() {
  if (!thread_.joinable())
    return;
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  timeline::close("the process ends");
  stop_asked_.notify_all();
  timeline::wake();
  thread_.join();
  if (fd_ >= 0)
    ::close(fd_);
}

void trace_writer::run() {
  prctl(PR_SET_NAME, "trace-writer");
  std::uint64_t seen = 0;
  bool told = false;
  for (;;) {
    const bool is_on = timeline::is_on();
    if (is_on && !told)
      log_.line("trace-started", "traces requests into " + options_.dir);
    told = is_on;
    {
      std::unique_lock lock{mutex_};
      if (is_on)
        stop_asked_.wait_for(lock, round_interval, [this] { return stopping_; });
      if (stopping_)
        break;
    }
    write_round();
    if (!timeline::is_on())
      seen = timeline::await_change(seen);
  }
  write_round();
}

void trace_writer::write_round() {
  chunks_.clear();
  const auto dropped =
      rings_->drain([this](const timeline::ring_pool::thread_id& thread,
                           std::span<const timeline::event> events) { gather(thread, events); });
  if (dropped > 0)
    add_chunk(trace_chunk::dropped, 0, &dropped, sizeof(dropped));
  if (!chunks_.empty() && !over_)
    write_out();
}

void trace_writer::gather(const timeline::ring_pool::thread_id& thread,
                          std::span<const timeline::event> events) {
  if (over_)
    return;
  if (named_threads_.insert(thread.number).second) {
    add_chunk(trace_chunk::thread, thread.number, thread.name.data(),
              strnlen(thread.name.data(), thread.name.size()));
  }
  add_chunk(trace_chunk::events, thread.number, events.data(), events.size_bytes());
}

void trace_writer::add_chunk(trace_chunk what, std::uint32_t thread, const void* content, std::size_t bytes) {
  const trace_chunk_head head{what, thread, static_cast<std::uint32_t>(bytes), 0};
  append(chunks_, &head, sizeof(head));
  append(chunks_, content, bytes);
}

void trace_writer::open_file() {
  const std::string stem = (std::filesystem::path(options_.dir) / file_name_of(log_.name())).string();
  for (int number = 1; number <= most_files; ++number) {
    path_ = stem + (number == 1 ? "" : "." + std::to_string(number)) + ".trace";
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (fd_ >= 0 || errno != EEXIST)
      break;
  }
  if (fd_ < 0) {
    end("trace-failed", "cannot make " + path_ + ": " + std::strerror(errno));
    return;
  }
  const auto json = to_json(this_process(log_.name()));
  trace_file_head head;
  head.json_bytes = static_cast<std::uint32_t>(json.size());
  std::vector<char> start;
  append(start, &head, sizeof(head));
  append(start, json.data(), json.size());
  put(start);
}

void trace_writer::put(const std::vector<char>& bytes) {
  const char* from = bytes.data();
  std::size_t left = bytes.size();
  while (left > 0) {
    const ssize_t done = ::write(fd_, from, left);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0) {
      end("trace-failed", "cannot write " + path_ + ": " + std::strerror(errno));
      return;
    }
    from += done;
    left -= static_cast<std::size_t>(done);
    written_ += static_cast<std::uint64_t>(done);
  }
}

void trace_writer::write_out() {
  if (fd_ < 0)
    open_file();
  const bool is_full = written_ + chunks_.size() > options_.max_bytes;
  if (is_full) {
    chunks_.clear();
    add_chunk(trace_chunk::full, 0, nullptr, 0);
  }
  if (!over_)
    put(chunks_);
  if (is_full && !over_) {
    end("trace-full",
        path_ + " has " + std::to_string(written_) + " bytes, and --trace-max-bytes allows no more");
  }
}

void trace_writer::end(const char* event, const std::string& why) {
  over_ = true;
  timeline::close(why);
  log_.line(event, why + "; this process is traced no more");
}

} // namespace troupe
