// Whether this program's repairs of UCX act. They stand in front of functions that no header of UCX declares
// (ucx_dead_peers.cpp, ucx_event_order.cpp, ucx_loopback.cpp), so they fit the versions they were
// tested with, and no others for certain.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

enum class ucx_repairs : std::uint8_t {
  automatic, ///< they act in tested versions; another one runs without them, and the operator is told
  on,        ///< they act whatever the version is
  off,       ///< they never act
  required,  ///< a version that is not tested is refused
};

struct ucx_version {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;

  bool operator==(const ucx_version&) const = default;

  /// "1.13.1"
  std::string text() const;
};

/// The one that this process has loaded.
ucx_version loaded_ucx();

/// Whether all tests ran with it: 1.13 in any release.
bool is_tested(const ucx_version& version);

struct ucx_verdict {
  bool act = false;    ///< the repairs do
  std::string warning; ///< for the operator; empty: none
};

/// @throws std::runtime_error when tested versions are required and this is none
ucx_verdict judge_ucx(ucx_repairs wanted, const ucx_version& version);

} // namespace troupe
