#include "services/process/cluster_entry.hpp"

#include <fstream>
#include <iterator>
#include <random>

#include <unistd.h>

#include "actors/message_kinds.hpp"
#include "actors/message_lanes.hpp"
#include "services/options/private_file.hpp"

namespace troupe {

namespace {

/// Of --ucx-repairs, whose values the parser has checked.
ucx_repairs repairs_of(const std::string& word) {
  if (word == "on") {
    return ucx_repairs::on;
  }
  if (word == "off") {
    return ucx_repairs::off;
  }
  return word == "required" ? ucx_repairs::required : ucx_repairs::automatic;
}

} // namespace

std::string read_secret(const std::string& file) {
  if (file.empty()) {
    throw option_error("--secret-file is missing: processes of a cluster share a secret");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw option_error("--secret-file: cannot read " + file);
  }
  if (is_open_to_others(file)) {
    throw option_error("--secret-file: " + file + " is open to other users; chmod 600 it");
  }
  std::string secret((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r' || secret.back() == ' ')) {
    secret.pop_back();
  }
  if (secret.size() < 16) {
    throw option_error("--secret-file: " + file + " holds fewer than 16 bytes");
  }
  return secret;
}

transport_options make_transport_options(const cluster_options& options, const std::string& role,
                                         const std::string& fingerprint, const process_log& log) {
  host_port listen = parse_host_port(options.listen, "--listen");
  if (!options.advertise.empty()) {
    parse_host_port(options.advertise, "--advertise");
  } else if (listen.host == "0.0.0.0" || listen.host == "::") {
    throw option_error("--advertise is missing: peers cannot dial " + options.listen);
  }
  transport_options result;
  result.listen = options.listen;
  result.advertise = options.advertise;
  result.secret = read_secret(options.secret_file);
  result.role = role;
  result.fingerprint = fingerprint;
  result.kinds = message_kinds();
  result.data_ports = options.data_ports;
  result.net_devices = options.net_devices;
  if (result.net_devices.empty()
      && (listen.host == "127.0.0.1" || listen.host == "localhost" || listen.host == "::1")) {
    result.net_devices = "lo"; // otherwise a second lane over another interface comes into being
  }
  result.repairs = repairs_of(options.ucx_repairs);
  result.shared_memory = options.shared_memory;
  result.is_bulk = is_bulk;
  result.log = [log](const char* event, const std::string& text) { log.line(event, text); };
  return result;
}

void report_ready(const cluster_options& options, const std::string& endpoint, const std::string& metrics) {
  if (options.ready_fd == 0) {
    return;
  }
  std::string line = endpoint + (metrics.empty() ? "" : " " + metrics) + "\n";
  int fd = static_cast<int>(options.ready_fd);
  if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw option_error("--ready-fd: cannot write to descriptor " + std::to_string(fd));
  }
  close(fd);
}

worker_id draw_worker_id() {
  std::random_device random;
  uint64_t value = 0;
  while (value == 0) {
    value = (uint64_t{random()} << 32) | random();
  }
  return {value};
}

} // namespace troupe
