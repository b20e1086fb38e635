#include "actors/transport/fabric/ucx_repairs.hpp"

#include <stdexcept>

#include <ucp/api/ucp.h>

namespace troupe {

std::string ucx_version::text() const {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

ucx_version loaded_ucx() {
  ucx_version version;
  ucp_get_version(&version.major, &version.minor, &version.release);
  return version;
}

bool is_tested(const ucx_version& version) {
  return version.major == 1 && version.minor == 13;
}

ucx_verdict judge_ucx(ucx_repairs wanted, const ucx_version& version) {
  const std::string what = "UCX " + version.text() + " is none of the tested versions (1.13)";
  switch (wanted) {
  case ucx_repairs::off:
    return {false, "the repairs of UCX are off: a peer that dies while it connects can end this process"};
  case ucx_repairs::on:
    return {true, is_tested(version) ? "" : what + "; its repairs act all the same, as --ucx-repairs says"};
  case ucx_repairs::required:
    if (!is_tested(version))
      throw std::runtime_error(what + ", which --ucx-repairs required asks for");
    return {true, ""};
  case ucx_repairs::automatic:
    break;
  }
  if (is_tested(version))
    return {true, ""};
  return {false, what
                     + ": it runs without our repairs, and where it has the faults of 1.13, a peer that dies "
                       "while it connects ends this process; --ucx-repairs on has them act"};
}

} // namespace troupe
