#include "actors/transport/fabric/ucx_worker.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include "actors/transport/fabric/repairs_switch.hpp"
#include "actors/transport/fabric/ucx_dead_peers.hpp"
#include "actors/transport/fabric/ucx_event_order.hpp"

namespace troupe::wire {

namespace {

constexpr unsigned message_id = 1;

/// What of the environment has a say in how UCX starts: "; UCX_TLS=rc is set".
std::string settings_of_site() {
  std::string text;
  for (const char* name : {"UCX_TLS", "UCX_NET_DEVICES", "UCX_SOCKADDR_TLS_PRIORITY", "UCX_ALLOC_PRIO"})
    if (const char* value = std::getenv(name))
      text += (text.empty() ? "; the environment has " : ", ") + std::string{name} + "=" + value;
  return text;
}

void check(ucs_status_t status, const char* call, const ucx_settings& settings) {
  if (status != UCS_OK)
    throw std::runtime_error(std::string{"transport: "} + call + ": " + ucs_status_string(status)
                             + (settings.shared_memory ? " (shared memory)"
                                                       : " (network devices '" + settings.net_devices
                                                             + "', data ports '" + settings.port_range + "')")
                             + settings_of_site());
}

void set_default(const char* name, const char* value) {
  setenv(name, value, 0);
}

// ucp_config_modify accepts TCP_* keys and ignores them, hence the environment.
void write_environment(const ucx_settings& settings) {
  // 64 to 128 KiB stay eager: one segment, no handshake.
  set_default("UCX_TCP_TX_SEG_SIZE", "256K");
  set_default("UCX_TCP_RX_SEG_SIZE", "256K");
  // The rendezvous socket and heartbeats show which peers are dead; UCX's probes to a dead peer were seen to
  // reconnect in a loop.
  set_default("UCX_KEEPALIVE_INTERVAL", "inf");
  if (!settings.net_devices.empty())
    setenv("UCX_NET_DEVICES", settings.net_devices.c_str(), 1);
  if (!settings.port_range.empty())
    setenv("UCX_TCP_PORT_RANGE", settings.port_range.c_str(), 1);
  if (settings.shared_memory) {
    // Without it UCX keeps shared memory out of endpoints that handle peer failure.
    set_default("UCX_POSIX_ERROR_HANDLING", "y");
    // 64 KiB aborts and 256 KiB hangs in UCX 1.13.1.
    set_default("UCX_POSIX_SEG_SIZE", "32768");
  }
}

// What may carry messages. Workers for the network keep off shared memory, which they would never use (their
// addresses are for the network alone) but would set up: where /dev/shm is full, read-only or not there, UCX
// would not start. nullptr: what the operator has set in the environment.
const char* transports_of(const ucx_settings& settings) {
  if (settings.shared_memory)
    return "posix";
  return std::getenv("UCX_TLS") == nullptr ? "^shm" : nullptr;
}

// A worker for the network that has no transport for it starts, and refuses every peer for ever.
void check_transports(const ucx_settings& settings) {
  const char* const chosen = std::getenv("UCX_TLS");
  if (settings.shared_memory || chosen == nullptr || *chosen == '^')
    return;
  constexpr std::string_view within_a_host[] = {
      "sm",   "shm",  "mm",   "posix",     "sysv",     "xpmem",    "cma",       "knem",
      "self", "cuda", "rocm", "cuda_copy", "cuda_ipc", "gdr_copy", "rocm_copy", "rocm_ipc"};
  std::istringstream names{chosen};
  for (std::string name; std::getline(names, name, ',');)
    if (std::find(std::begin(within_a_host), std::end(within_a_host), name) == std::end(within_a_host))
      return;
  throw std::runtime_error("transport: the environment has UCX_TLS=" + std::string{chosen}
                           + ", which reaches no other process over the network: add tcp, or unset it");
}

// If a device is missing, UCX starts with the others, and no peer could reach the process.
void check_devices(const std::string& names) {
  for (std::size_t at = 0; at < names.size();) {
    const auto end = std::min(names.find(',', at), names.size());
    // "name" or "name:port"; UCX also knows "all" and "^name".
    const auto name = names.substr(at, std::min(names.find(':', at), end) - at);
    at = end + 1;
    if (name == "all" || name.starts_with('^'))
      continue;
    std::error_code ignored;
    if (name.empty() || name.find('/') != std::string::npos
        || (!std::filesystem::exists("/sys/class/net/" + name, ignored)
            && !std::filesystem::exists("/sys/class/infiniband/" + name, ignored)))
      throw std::runtime_error("transport: no network device '" + name + "' on this host");
  }
}

// Read when the library is loaded, so the environment comes too late for these.
void set_process_options() {
  // A dying peer is an event for us, not an error to print.
  if (std::getenv("UCX_LOG_LEVEL") == nullptr)
    ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  // Signals belong to the program: UCX would print a backtrace and hang on to core dumps.
  if (std::getenv("UCX_HANDLE_ERRORS") == nullptr)
    for (const int number : {SIGILL, SIGSEGV, SIGBUS, SIGFPE})
      ucs_debug_disable_signal(number);
}

} // namespace

ucx_worker::handler::~handler() = default;
ucx_worker::operation::~operation() = default;
ucx_worker::endpoint_owner::~endpoint_owner() = default;

struct ucx_worker::callbacks {
  static ucs_status_t arrived(void* arg, const void* head, std::size_t head_bytes, void* data,
                              std::size_t num_bytes, const ucp_am_recv_param_t* param) {
    auto* self = static_cast<ucx_worker*>(arg);
    const bool waiting = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    arrival msg;
    msg.at = self;
    msg.head = {static_cast<const std::byte*>(head), head_bytes};
    msg.num_bytes = num_bytes;
    if (waiting)
      msg.descriptor = data;
    else
      msg.data = static_cast<const std::byte*>(data);
    const bool taken = self->owner_.arrived(msg);
    return waiting && taken ? UCS_INPROGRESS : UCS_OK;
  }

  static void received(void* request, ucs_status_t status, std::size_t, void* op) {
    sent(request, status, op);
  }

  static void sent(void* request, ucs_status_t status, void* data) {
    auto* op = static_cast<operation*>(data);
    if (op->under_way_on_ == nullptr) {
      // UCX 1.13 does this where the data of a frame are to be fetched from a peer that has just died.
      op->early_ = status == UCS_OK;
      return;
    }
    ucp_request_free(request);
    --op->under_way_on_->under_way_;
    op->ended(status == UCS_OK);
  }

  static void failed(void* arg, ucp_ep_h, ucs_status_t status) {
    static_cast<endpoint_owner*>(arg)->endpoint_failed(ucs_status_string(status));
  }

  static outcome outcome_of(ucs_status_ptr_t request, ucx_worker& self, operation& op) {
    if (request == nullptr)
      return outcome::done;
    if (UCS_PTR_IS_ERR(request))
      return outcome::failed;
    if (op.early_) {
      ucp_request_free(request);
      return *op.early_ ? outcome::done : outcome::failed;
    }
    op.under_way_on_ = &self;
    ++self.under_way_;
    return outcome::pending;
  }
};

ucx_worker::ucx_worker(const ucx_settings& settings, handler& owner) : owner_(owner) {
  if (repairs_act() && (!events_are_ordered() || !dead_peers_are_survived()))
    throw std::runtime_error("transport: the program does not export its repairs of UCX to UCX's libraries");
  check_devices(settings.net_devices);
  // The environment is the process's: two transports that start at once take turns.
  static std::mutex environment_mutex;
  std::lock_guard guard{environment_mutex};
  write_environment(settings);
  check_transports(settings);
  set_process_options();
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read", settings);
  const auto* transports = transports_of(settings);
  const auto chosen = transports != nullptr ? ucp_config_modify(config, "TLS", transports) : UCS_OK;
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 0;
  const auto status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  check(status, "ucp_init", settings);
  if (chosen != UCS_OK) {
    ucp_cleanup(context_);
    check(chosen, "ucp_config_modify", settings);
  }
  try {
    ucp_worker_params_t worker_params{};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    check(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create", settings);
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER | UCP_WORKER_ATTR_FIELD_ADDRESS
                            | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = settings.shared_memory ? 0 : UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    check(ucp_worker_query(worker_, &attributes), "ucp_worker_query", settings);
    max_head_bytes_ = attributes.max_am_header;
    address_.assign(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
    ucp_worker_release_address(worker_, attributes.address);
    ucp_am_handler_param_t on_message{};
    on_message.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB
                            | UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    on_message.id = message_id;
    on_message.cb = &callbacks::arrived;
    on_message.arg = this;
    on_message.flags = UCP_AM_FLAG_WHOLE_MSG;
    check(ucp_worker_set_am_recv_handler(worker_, &on_message), "ucp_worker_set_am_recv_handler", settings);
    check(ucp_worker_get_efd(worker_, &event_fd_), "ucp_worker_get_efd", settings);
  } catch (...) {
    if (worker_ != nullptr)
      ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    throw;
  }
}

ucx_worker::~ucx_worker() {
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

unsigned ucx_worker::progress() {
  return ucp_worker_progress(worker_);
}

bool ucx_worker::arm() {
  return ucp_worker_arm(worker_) == UCS_OK;
}

ucp_ep* ucx_worker::connect(const std::string& address, endpoint_owner& owner) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                      | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &callbacks::failed;
  params.err_handler.arg = &owner;
  ucp_ep_h endpoint = nullptr;
  return ucp_ep_create(worker_, &params, &endpoint) == UCS_OK ? endpoint : nullptr;
}

ucx_worker::outcome ucx_worker::post(ucp_ep* endpoint, std::span<const std::byte> head,
                                     std::span<io_part> parts, operation& op) {
  static_assert(sizeof(io_part) == sizeof(ucp_dt_iov_t)
                && offsetof(io_part, data) == offsetof(ucp_dt_iov_t, buffer)
                && offsetof(io_part, length) == offsetof(ucp_dt_iov_t, length));
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &callbacks::sent;
  param.user_data = &op;
  const void* data = nullptr;
  std::size_t count = 0;
  if (parts.size() == 1) {
    data = parts.front().data;
    count = parts.front().length;
  } else if (!parts.empty()) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = UCP_DATATYPE_IOV;
    data = parts.data();
    count = parts.size();
  }
  return callbacks::outcome_of(
      ucp_am_send_nbx(endpoint, message_id, head.data(), head.size(), data, count, &param), *this, op);
}

ucx_worker::outcome ucx_worker::receive(void* descriptor, std::byte* to, std::size_t num_bytes,
                                        operation& op) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = &callbacks::received;
  param.user_data = &op;
  return callbacks::outcome_of(ucp_am_recv_data_nbx(worker_, descriptor, to, num_bytes, &param), *this, op);
}

void ucx_worker::close(ucp_ep* endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  auto* request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request))
    closing_.push_back(request);
}

bool ucx_worker::closing() {
  std::erase_if(closing_, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS)
      return false;
    ucp_request_free(request);
    return true;
  });
  return !closing_.empty();
}

} // namespace troupe::wire
