// The right to be the scheduler of a state directory, and the term that goes with it.
//
// A term is a file `lease.<term>`. Its holder makes it with a link, which fails if the name exists. So no
// term is taken twice, and the holder of the highest term is the scheduler. The holder locks the file before
// others can see it and until its process ends, and touches it every defaults::scheduler_lease_interval. A
// standby takes the next term when the lock is gone (on the same machine, when the process has ended), or
// when the file has not been touched for defaults::scheduler_lease (the process is stopped, or its machine is
// lost). A holder that wakes up finds a higher term, and ends.
//
// Clocks of two machines are never compared: the watching process measures with its own clock how long a time
// stamp stays unchanged. All functions block as long as the file system does: not for actors of the pool.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// The process that holds a lease.
struct lease_holder {
  std::uint64_t term = 0;
  std::string name; ///< "scheduler-0"; empty when the file cannot be read
  std::int64_t pid = 0;
  std::string host;
  std::string boot; ///< the id of one run of one machine's kernel, whose locks end with their processes
  bool operator==(const lease_holder&) const = default;
};

/// "'scheduler-0', process 12 on host-a".
std::string described(const lease_holder& holder);

/// The highest term that a lease of this directory has; 0: none.
/// @throws std::runtime_error
std::uint64_t newest_leased_term(const std::string& directory);

/// Has another process taken a lease of this directory since this process did?
/// @throws std::runtime_error
bool is_led_by_another(const std::string& directory);

/// A lease that this process holds, until this object goes.
class scheduler_lease {
 public:
  ~scheduler_lease();
  scheduler_lease(const scheduler_lease&) = delete;
  scheduler_lease& operator=(const scheduler_lease&) = delete;

  std::uint64_t term() const { return self_.term; }

  /// Touches the file, which shows watchers that the holder lives.
  /// @returns the successor, if there is one
  /// @throws std::runtime_error  watchers may not see the renewal
  std::optional<lease_holder> renew();

  /// Takes the term above `above`, unless the lease has a higher one already. Durable on return.
  /// @returns the successor, if there is one
  /// @throws std::runtime_error  the term is what it was
  std::optional<lease_holder> raise(std::uint64_t above);

 private:
  friend class lease_watch;
  struct locked_file;

  scheduler_lease(std::string directory, lease_holder self, std::unique_ptr<locked_file> file);

  std::string directory_;
  lease_holder self_;
  std::unique_ptr<locked_file> file_;
};

/// Watches a directory, and takes its lease when no living process holds it.
class lease_watch {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  /// A term that the lease must exceed, from other stored files.
  using known_term = std::function<uint64_t()>;

  /// @param name  of this scheduler, for others to read
  lease_watch(std::string directory, const std::string& name);

  /// One look.
  /// @param known  called when the lease can be taken
  /// @returns the lease, in a term that is durable and that no other process has had; null while it cannot be
  /// taken
  /// @throws std::runtime_error  for a file system without locks or links, and other errors; says what to do
  std::unique_ptr<scheduler_lease> look(time_point now, const known_term& known);

  /// The holder at the last look.
  const std::optional<lease_holder>& holder() const { return holder_; }

  /// Has the holder been seen to renew?
  bool is_alive() const { return is_alive_; }

 private:
  std::string directory_;
  lease_holder self_;
  std::optional<lease_holder> holder_;
  std::pair<std::int64_t, std::int64_t> touched_; // the time stamp of the holder's file: s, ns
  time_point unchanged_since_;
  bool is_alive_ = false;
};

} // namespace troupe
