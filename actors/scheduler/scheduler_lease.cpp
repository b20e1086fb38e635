#include "actors/scheduler/scheduler_lease.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

constexpr std::string_view prefix = "lease.";
constexpr std::string_view unfinished = "lease.new."; ///< of processes that are about to take one
constexpr auto magic = "troupe-lease 1";

std::string path_of(const std::string& directory, std::uint64_t term) {
  return directory + "/" + std::string{prefix} + std::to_string(term);
}

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw std::runtime_error(what + " '" + path + "': " + std::generic_category().message(error));
}

/// @returns 0 when it is no lease's name
std::uint64_t term_of(std::string_view name) {
  std::uint64_t term = 0;
  if (!name.starts_with(prefix))
    return 0;
  name.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), term);
  return error == std::errc{} && end == name.data() + name.size() ? term : 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string boot_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

std::string render(const lease_holder& holder) {
  std::ostringstream out;
  out << magic << "\nholder " << std::quoted(holder.name) << ' ' << holder.pid << ' '
      << std::quoted(holder.host) << ' ' << std::quoted(holder.boot) << '\n';
  return out.str();
}

/// Fields that cannot be read stay empty: then only the time stamp counts.
lease_holder parse_holder(const std::string& text, std::uint64_t term) {
  std::istringstream in(text);
  std::string first;
  std::string key;
  lease_holder found;
  std::getline(in, first);
  if (first != magic || !(in >> key >> std::quoted(found.name) >> found.pid >> std::quoted(found.host))
      || !(in >> std::quoted(found.boot)))
    found = {};
  found.term = term;
  return found;
}

class open_file {
 public:
  explicit open_file(int fd) : fd_(fd) {}

  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;

  ~open_file() {
    if (fd_ >= 0)
      ::close(fd_);
  }

  int get() const { return fd_; }

 private:
  int fd_;
};

/// Locks the file as long as it is open, or asks which process has it locked. The lock belongs to the open
/// file and not to the process, so that two leases in one process exclude one another, too.
/// @throws std::runtime_error  where the file system has no locks
bool lock(int fd, int command, const std::string& directory) {
  struct flock whole {};

  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(fd, command, &whole) == 0)
    return command == F_OFD_SETLK || whole.l_type != F_UNLCK;
  if (errno == EAGAIN || errno == EACCES)
    return false;
  throw std::runtime_error(
      "the file system of the state directory '" + directory + "' has no locks ("
      + std::generic_category().message(errno)
      + "): choose a directory on a local disk, or on a network file system that is mounted "
        "with locks");
}

bool is_locked(int fd, const std::string& directory) {
  return lock(fd, F_OFD_GETLK, directory);
}

void sync_directory(const std::string& directory) {
  const open_file at{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (at.get() < 0 || fsync(at.get()) != 0)
    fail("cannot sync", directory, errno);
}

lease_holder read_holder(int fd, std::uint64_t term) {
  std::array<char, 2048> buffer{};
  const auto size = pread(fd, buffer.data(), buffer.size(), 0);
  return parse_holder(size > 0 ? std::string{buffer.data(), static_cast<std::size_t>(size)} : std::string{},
                      term);
}

lease_holder holder_of(const std::string& directory, std::uint64_t term) {
  const open_file file{::open(path_of(directory, term).c_str(), O_RDONLY | O_CLOEXEC)};
  return file.get() < 0 ? parse_holder({}, term) : read_holder(file.get(), term);
}

/// Removes the files of earlier holders, and of processes that died while they took a lease.
void remove_older(const std::string& directory, std::uint64_t term) {
  std::error_code ignored; // a file that is left does no harm
  for (const auto& entry : std::filesystem::directory_iterator{directory, ignored}) {
    const auto name = entry.path().filename().string();
    const auto old = term_of(name);
    if (old != 0 && old < term)
      std::filesystem::remove(entry.path(), ignored);
    if (!name.starts_with(unfinished))
      continue;
    const open_file file{::open(entry.path().c_str(), O_RDWR | O_CLOEXEC)};
    if (file.get() >= 0 && !is_locked(file.get(), directory))
      std::filesystem::remove(entry.path(), ignored);
  }
}

} // namespace

std::string described(const lease_holder& holder) {
  if (holder.name.empty())
    return "another scheduler";
  return "'" + holder.name + "', process " + std::to_string(holder.pid) + " on " + holder.host;
}

std::uint64_t newest_leased_term(const std::string& directory) {
  std::uint64_t result = 0;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator{directory, error};
       !error && entry != std::filesystem::directory_iterator{}; entry.increment(error))
    result = std::max(result, term_of(entry->path().filename().string()));
  if (error)
    throw std::runtime_error("cannot read the state directory '" + directory + "': " + error.message());
  return result;
}

bool is_led_by_another(const std::string& directory) {
  const auto newest = newest_leased_term(directory);
  if (newest == 0)
    return false;
  const auto holder = holder_of(directory, newest);
  return holder.pid != getpid() || holder.host != host_name() || holder.boot != boot_id();
}

// ---------------------------------------------------------------------------------------------------------------
// Holding

struct scheduler_lease::locked_file {
  explicit locked_file(int fd) : file(fd) {}

  open_file file;

  /// Makes the file of a term; null when another process has that term, or a higher one.
  static std::unique_ptr<locked_file> claim(const std::string& directory, const lease_holder& who) {
    auto temporary = directory + "/" + std::string{unfinished} + "XXXXXX";
    auto result = std::make_unique<locked_file>(mkostemp(temporary.data(), O_CLOEXEC));
    const auto fd = result->file.get();
    if (fd < 0)
      fail("cannot write", temporary, errno);
    const auto target = path_of(directory, who.term);
    int error = 0;
    try {
      lock(fd, F_OFD_SETLK, directory); // before others can see it
      const auto text = render(who);
      if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) || fsync(fd) != 0)
        fail("cannot write", temporary, errno);
      error = ::link(temporary.c_str(), target.c_str()) == 0 ? 0 : errno;
    } catch (...) {
      ::unlink(temporary.c_str());
      throw;
    }
    ::unlink(temporary.c_str());
    if (error == EEXIST || error == ENOENT)
      return nullptr;
    if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS)
      throw std::runtime_error("the file system of the state directory '" + directory
                               + "' has no hard links: choose a directory on another one");
    if (error != 0)
      fail("cannot make", target, error);
    sync_directory(directory);
    // The file of an old term that its successors have removed can be made anew: that term is void.
    if (newest_leased_term(directory) != who.term) {
      ::unlink(target.c_str());
      return nullptr;
    }
    remove_older(directory, who.term);
    return result;
  }
};

scheduler_lease::scheduler_lease(std::string directory, lease_holder self, std::unique_ptr<locked_file> file)
    : directory_(std::move(directory)), self_(std::move(self)), file_(std::move(file)) {}

scheduler_lease::~scheduler_lease() = default;

std::optional<lease_holder> scheduler_lease::renew() {
  if (const auto newest = newest_leased_term(directory_); newest > self_.term)
    return holder_of(directory_, newest);
  // The time stamp only has to differ, and the kernel's own clock stays the same for some milliseconds.
  std::array<timespec, 2> now_and_now{};
  clock_gettime(CLOCK_REALTIME, now_and_now.data());
  now_and_now[1] = now_and_now[0];
  if (futimens(file_->file.get(), now_and_now.data()) != 0)
    fail("cannot touch", path_of(directory_, self_.term), errno);

  struct stat info {};

  if (fstat(file_->file.get(), &info) != 0 || info.st_nlink == 0)
    throw std::runtime_error("somebody has removed '" + path_of(directory_, self_.term) + "'");
  return std::nullopt;
}

std::optional<lease_holder> scheduler_lease::raise(std::uint64_t above) {
  if (const auto newest = newest_leased_term(directory_); newest > self_.term)
    return holder_of(directory_, newest);
  if (above < self_.term)
    return std::nullopt;
  auto next = self_;
  next.term = above + 1;
  auto file = locked_file::claim(directory_, next);
  if (!file)
    return holder_of(directory_, newest_leased_term(directory_));
  self_ = std::move(next);
  file_ = std::move(file);
  return std::nullopt;
}

// ---------------------------------------------------------------------------------------------------------------
// Watching

lease_watch::lease_watch(std::string directory, const std::string& name)
    : directory_(std::move(directory)), self_{0, name, getpid(), host_name(), boot_id()} {}

std::unique_ptr<scheduler_lease> lease_watch::look(time_point now, const known_term& known) {
  const auto newest = newest_leased_term(directory_);
  if (newest == 0) {
    holder_.reset();
  } else {
    const open_file file{::open(path_of(directory_, newest).c_str(), O_RDWR | O_CLOEXEC)};

    struct stat info {};

    if (file.get() < 0 || fstat(file.get(), &info) != 0) {
      if (errno == ENOENT || errno == ESTALE)
        return nullptr; // its successor has just removed it
      fail("cannot read", path_of(directory_, newest), errno);
    }
    const std::pair<std::int64_t, std::int64_t> touched{info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    const auto is_same = holder_ && holder_->term == newest;
    if (!is_same || touched != touched_) {
      is_alive_ = is_same;
      unchanged_since_ = now;
      touched_ = touched;
      holder_ = read_holder(file.get(), newest);
    }
    // Where the kernel does not name its boot, the host's name is used.
    const auto is_neighbour =
        holder_->boot == self_.boot
        && (!self_.boot.empty() || (!self_.host.empty() && holder_->host == self_.host));
    const auto has_ended = is_neighbour && !is_locked(file.get(), directory_);
    if (!has_ended && now - unchanged_since_ < defaults::scheduler_lease)
      return nullptr;
  }
  auto next = self_;
  next.term = std::max(newest, known()) + 1;
  if (newest_leased_term(directory_) != newest)
    return nullptr; // another process was faster, and `known` may say so
  auto file = scheduler_lease::locked_file::claim(directory_, next);
  if (!file)
    return nullptr;
  return std::unique_ptr<scheduler_lease>{new scheduler_lease{directory_, std::move(next), std::move(file)}};
}

} // namespace troupe
