// Entry of a process into its cluster: transport options from flags, the secrets, the ready line.
#pragma once

#include <string>
#include <vector>

#include "actors/protocol/ids.hpp"
#include "actors/transport/caf/transport.hpp"
#include "actors/transport/wire/cluster_secrets.hpp"
#include "services/log/process_log.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

/// @param fingerprint  of the model; empty for a scheduler
/// @param secrets      of `read_secrets`; may be replaced later
/// @throws option_error for an unusable flag
transport_options make_transport_options(const cluster_options& options, const wire::cluster_secrets& secrets,
                                         const std::string& role, const std::string& fingerprint,
                                         const process_log& log);

/// The cluster's secrets, one a line, without surrounding white space. This process sends the first and
/// accepts any of them from peers.
/// @throws option_error when the file cannot be read, is readable by others, holds no secret or one of fewer
///         than 16 bytes
std::vector<std::string> read_secrets(const std::string& file);

/// Reports to the parent process that this process is ready: one line on --ready-fd with `endpoint`, and
/// after a space HOST:PORT of its metrics if it has them. Closes the descriptor.
void report_ready(const cluster_options& options, const std::string& endpoint,
                  const std::string& metrics = {});

/// A new incarnation's id, from the system's random source.
worker_id draw_worker_id();

} // namespace troupe
