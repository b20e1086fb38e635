#include "services/cluster/cluster_entry.hpp"

#include <fstream>
#include <random>
#include <utility>

#include <unistd.h>

#include "actors/protocol/message_kinds.hpp"
#include "actors/protocol/message_lanes.hpp"
#include "services/options/private_file.hpp"

namespace troupe {

namespace {

/// The value of --ucx-repairs, which the parser has checked.
ucx_repairs repairs_of(const std::string& word) {
  if (word == "on")
    return ucx_repairs::on;
  if (word == "off")
    return ucx_repairs::off;
  return word == "required" ? ucx_repairs::required : ucx_repairs::automatic;
}

} // namespace

std::vector<std::string> read_secrets(const std::string& file) {
  if (file.empty())
    throw option_error("--secret-file is missing: processes of a cluster share a secret");
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw option_error("--secret-file: cannot read " + file);
  if (is_open_to_others(file))
    throw option_error("--secret-file: " + file + " is open to other users; chmod 600 it");
  std::vector<std::string> secrets;
  for (std::string line; std::getline(in, line);) {
    constexpr const char* white = " \t\r";
    line.erase(line.find_last_not_of(white) + 1);
    line.erase(0, line.find_first_not_of(white));
    if (!line.empty())
      secrets.push_back(std::move(line));
  }
  if (secrets.empty())
    throw option_error("--secret-file: " + file + " holds no secret");
  for (std::size_t i = 0; i < secrets.size(); ++i) {
    if (secrets[i].size() < 16) {
      throw option_error("--secret-file: secret " + std::to_string(i + 1) + " of " + file
                         + " has fewer than 16 bytes (each line is one)");
    }
  }
  return secrets;
}

transport_options make_transport_options(const cluster_options& options, const wire::cluster_secrets& secrets,
                                         const std::string& role, const std::string& fingerprint,
                                         const process_log& log) {
  host_port listen = parse_host_port(options.listen, "--listen");
  if (!options.advertise.empty())
    parse_host_port(options.advertise, "--advertise");
  else if (listen.host == "0.0.0.0" || listen.host == "::")
    throw option_error("--advertise is missing: peers cannot dial " + options.listen);
  transport_options result;
  result.listen = options.listen;
  result.advertise = options.advertise;
  result.secret = secrets;
  result.role = role;
  result.fingerprint = fingerprint;
  result.kinds = message_kinds();
  result.data_ports = options.data_ports;
  result.net_devices = options.net_devices;
  if (result.net_devices.empty()
      && (listen.host == "127.0.0.1" || listen.host == "localhost" || listen.host == "::1"))
    result.net_devices = "lo"; // otherwise UCX opens a second lane over another interface
  result.repairs = repairs_of(options.ucx_repairs);
  result.shared_memory = options.shared_memory;
  result.is_bulk = is_bulk;
  result.log = [log](const char* event, const std::string& text) { log.line(event, text); };
  return result;
}

void report_ready(const cluster_options& options, const std::string& endpoint, const std::string& metrics) {
  if (options.ready_fd == 0)
    return;
  std::string line = endpoint + (metrics.empty() ? "" : " " + metrics) + "\n";
  int fd = static_cast<int>(options.ready_fd);
  if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw option_error("--ready-fd: cannot write to descriptor " + std::to_string(fd));
  close(fd);
}

worker_id draw_worker_id() {
  std::random_device random;
  std::uint64_t value = 0;
  while (value == 0)
    value = (std::uint64_t{random()} << 32) | random();
  return {value};
}

} // namespace troupe
