// How a process of a cluster meets the others: flags to transport, the secret, the ready line.
#pragma once

#include <string>

#include "actors/ids.hpp"
#include "actors/transport/transport.hpp"
#include "services/options/role_options.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// @param fingerprint  of the model; empty for a scheduler
/// @throws option_error for an unusable flag or secret file
transport_options make_transport_options(const cluster_options& options, const std::string& role,
                                         const std::string& fingerprint, const process_log& log);

/// The cluster secret: the file's bytes without trailing white space.
/// @throws option_error when the file cannot be read, holds fewer than 16 bytes, or is readable by others
std::string read_secret(const std::string& file);

/// Tells whoever started this process that it is up: one line with `endpoint` on --ready-fd, and after a
/// space HOST:PORT of its metrics if it has them; the descriptor is then closed.
void report_ready(const cluster_options& options, const std::string& endpoint,
                  const std::string& metrics = {});

/// A new incarnation's id, from the system's random source.
worker_id draw_worker_id();

} // namespace troupe
