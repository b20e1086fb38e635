// The folder of one run of `troupe up`: its lock, the cluster's secret, traces.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

/// Holds an advisory lock on a folder for this process: two clusters in one folder would overwrite each
/// other's pids.
class folder_lock {
 public:
  /// Makes the folder where there is none.
  /// @throws std::runtime_error when another process holds the lock, or the folder cannot be written
  explicit folder_lock(const std::filesystem::path& folder);
  ~folder_lock();
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;

 private:
  int fd_ = -1;
};

class run_folder {
 public:
  /// Locks the folder and writes a new secret into it.
  /// @param path  of --run-dir; empty: a new folder for temporary files
  /// @throws std::runtime_error as `folder_lock`
  explicit run_folder(std::filesystem::path path);
  /// Removes the secret. Processes that are started again read it, so they must have ended before.
  ~run_folder();
  run_folder(const run_folder&) = delete;
  run_folder& operator=(const run_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// The path of a file that only this user can read, with 32 random bytes in hexadecimal.
  std::filesystem::path secret() const { return path_ / "secret"; }

  /// The folder for traces of this run, without those of an earlier one.
  std::filesystem::path emptied_traces() const;

 private:
  std::filesystem::path path_;
  folder_lock lock_;
};

/// The trace files in a folder; none where there is no folder.
std::vector<std::filesystem::path> traces_in(const std::filesystem::path& folder);

} // namespace troupe
