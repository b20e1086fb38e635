#include "services/gateway/gateway_service.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <tuple>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "kernels/model/fingerprint_store.hpp"
#include "services/asio/listen_at.hpp"
#include "services/gateway/actor_backend.hpp"
#include "services/gateway/end_tokens.hpp"
#include "services/gateway/http/endpoints/routes.hpp"
#include "services/gateway/http/gateway_metrics.hpp"
#include "services/gateway/http/tls_identity.hpp"
#include "services/gateway/text/model_files.hpp"
#include "services/gateway/text/template_processes.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "services/log/request_lines.hpp"
#include "services/metrics/registry.hpp"
#include "services/startup/descriptor_limit.hpp"

namespace troupe {

namespace {

std::shared_ptr<const text::chat_template>
load_template(const model_options& model, const gateway_options& options, const process_log& log) {
  text::template_process_options processes;
  processes.most = options.template_processes;
  processes.log = [log](std::string_view event, const std::string& what) { log.line(event, what); };
  auto chat = std::make_shared<const text::chat_template>(
      text::chat_template::load(std::make_shared<text::template_processes>(std::move(processes)),
                                model.model_dir, options.chat_template_file));
  for (const auto& loss : chat->losses())
    log.line("chat-template-loses", loss);
  return chat;
}

openai::request_limits limits_of(const model_source& source, const model_options& model,
                                 const gateway_options& options, const text::tokenizer& tokenizer) {
  openai::request_limits limits;
  auto context = static_cast<std::uint32_t>(source.config.max_context);
  limits.max_model_len = model.max_model_len == 0 ? context : std::min(model.max_model_len, context);
  limits.trust_chat_template = options.trust_request_chat_template;
  limits.vocab_size = static_cast<std::int32_t>(source.config.vocab_size);
  limits.eos_token_ids = end_tokens_of(source.generation, source.config, tokenizer);
  const auto& generation = source.generation;
  limits.defaults = {.temperature = generation.temperature,
                     .top_k = generation.top_k,
                     .top_p = generation.top_p,
                     .min_p = generation.min_p,
                     .repetition_penalty = generation.repetition_penalty,
                     .max_new_tokens = generation.max_new_tokens};
  return limits;
}

void check_port(const std::string& what, const std::string& host, std::uint16_t port) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor(io);
  listen_at(acceptor, what, host, port);
}

/// Connections that fit the descriptor limit, so that one too many is refused with an answer instead of
/// waiting in the kernel for a descriptor.
std::size_t connections_of(const gateway_options& options, const process_log& log) {
  std::size_t limit = raise_descriptor_limit();
  std::size_t fit = connections_that_fit(options.max_connections, limit);
  if (fit < options.max_connections) {
    log.line("few-descriptors", "this process may open " + std::to_string(limit)
                                    + " files (ulimit -Hn), so that " + std::to_string(fit)
                                    + " connections fit, not the " + std::to_string(options.max_connections)
                                    + " of --max-connections");
  }
  return fit;
}

/// Names under which the server answers. Logs a line if anybody may use the server.
http::host_policy hosts_of(const gateway_options& options, bool needs_key, const process_log& log) {
  bool loopback = false;
  try {
    loopback = listen_address(options.host, 0).address().is_loopback();
  } catch (const boost::system::system_error&) {
    // The server reports the error when it listens.
  }
  if (!loopback && !needs_key) {
    log.line("no-api-key", "anybody who reaches " + options.host
                               + " may use this server: it asks for no key (--api-key-file)");
  }
  return options.allowed_hosts.empty() && (needs_key || !loopback) ? http::host_policy{}
                                                                   : http::host_policy(options.allowed_hosts);
}

/// Logs which certificate is in use from now on, and a warning if it is about to expire.
void log_certificate(const http::tls_identity& identity, const gateway_options& options,
                     const process_log& log) {
  log.line("tls-certificate", identity.description(),
           {{"file", options.tls_cert_file}, {"subject", identity.subject()}});
  const std::string warning = identity.warning(std::chrono::system_clock::now());
  if (!warning.empty())
    log.line("tls-certificate-expires", warning, {{"file", options.tls_cert_file}});
}

// Files that SIGHUP reads again.
std::vector<std::filesystem::path> files_to_reload(const gateway_options& options) {
  std::vector<std::filesystem::path> result;
  for (const auto& file : {options.tls_cert_file, options.tls_key_file, options.api_key_file,
                           options.operator_key_file, options.key_limits_file})
    if (!file.empty())
      result.emplace_back(file);
  return result;
}

} // namespace

std::pair<http::api_keys, http::key_limit_table> read_keys(const gateway_options& options) {
  std::pair<http::api_keys, http::key_limit_table> result;
  result.first = http::api_keys::load(options.api_key_file, options.operator_key_file);
  if (options.api_key_file.empty() && !options.key_limits_file.empty())
    throw option_error("--key-limits: --api-key-file is missing, which has the keys that are limited");
  if (!options.key_limits_file.empty())
    result.second = http::read_key_limits(options.key_limits_file, result.first.names());
  return result;
}

std::shared_ptr<const http::tls_identity> read_tls_identity(const gateway_options& options) {
  const std::string& certificate = options.tls_cert_file;
  const std::string& key = options.tls_key_file;
  if (certificate.empty() && key.empty())
    return nullptr;
  if (key.empty())
    throw option_error("--tls-cert-file: --tls-key-file is missing, the private key of " + certificate);
  if (certificate.empty())
    throw option_error("--tls-key-file: --tls-cert-file is missing, the certificate of " + key);
  return http::tls_identity::load(certificate, key);
}

void check_outside(const gateway_options& options) {
  check_port("http", options.host, static_cast<std::uint16_t>(options.port));
  if (options.management_port != 0)
    check_port("metrics", options.management_host, static_cast<std::uint16_t>(options.management_port));
  read_keys(options);
  read_tls_identity(options);
  if (const auto& file = options.chat_template_file; !file.empty() && !std::filesystem::is_regular_file(file))
    throw option_error("--chat-template: " + file + " is no file that can be read");
}

gateway_service::gateway_service(const service_site& site, const model_source& source,
                                 const model_options& model, const gateway_options& options,
                                 const std::string& instruction_set, std::unique_ptr<metrics::endpoint> early,
                                 std::shared_ptr<metrics::registry> families, reload_signal& reload)
    : site_(site) {
  auto watched = reload_signal::look_at(files_to_reload(options)); // before they are read
  http_server_config config;
  config.host = options.host;
  config.port = static_cast<std::uint16_t>(options.port);
  config.model_names = model.model_names();
  auto tokenizer = text::tokenizer::load(model.model_dir);
  for (const auto& difference : tokenizer->differences())
    site.log.line("tokenizer-files-differ", difference);
  config.requests = limits_of(source, model, options, *tokenizer);
  std::tie(config.keys, config.key_limits) = read_keys(options);
  config.hosts = hosts_of(options, config.keys.required(), site.log);
  config.trusted_proxies = address_ranges(options.trusted_proxies, "--trusted-proxies");
  config.tls = read_tls_identity(options);
  if (config.tls) {
    log_certificate(*config.tls, options, site.log);
    config.handshake_failed = [log = site.log](const std::string& client, const std::string& reason) {
      log.line("tls-handshake-failed", reason, {{"client", client}});
    };
  }
  config.management_host = options.management_host;
  if (options.management_port != 0)
    config.management_port = static_cast<std::uint16_t>(options.management_port);
  config.allowed_origins = options.allowed_origins;
  config.version = program_version();
  config.fingerprint = std::string("fp_") + program_version() + "-" + model::config_id_of(source.config);
  config.tokenizer_info =
      text::read_text_file(std::filesystem::path(model.model_dir) / "tokenizer_config.json").value_or("{}");
  config.details = {{"instruction_set", instruction_set}};
  if (!source.fingerprint.empty()) { // a gateway alone has no weights; /cluster has those of the workers
    config.details["numerics_class"] = source.numerics_class;
    config.details["model_fingerprint"] = source.fingerprint;
  }
  config.threads = options.io_threads;
  config.text_threads = options.text_threads;
  config.requests.max_response_bytes = options.max_response_bytes;
  config.limits.sse_ping = std::chrono::seconds{options.sse_ping_interval};
  config.limits.idle = std::chrono::seconds{options.idle_timeout};
  config.limits.max_connections = connections_of(options, site.log);
  config.limits.max_connections_per_peer = options.max_connections_per_peer;
  config.warn = [log = site.log](const std::string& line) { log.line("request-warning", line); };
  try {
    access_ = std::make_shared<access_log>(options.access_log, site.log);
  } catch (const std::runtime_error& error) {
    throw option_error("--access-log: " + std::string(error.what()));
  }
  if (!options.otlp_endpoint.empty())
    spans_ = std::make_shared<otlp_exporter>(options.otlp_endpoint, model.model_name(), site.log);
  config.access = [access = access_, spans = spans_](const http::access_record& record) {
    access->write(record);
    if (spans)
      spans->record(record);
  };
  reloads_.push_back(reload.add([access = access_] { access->reopen(); }));
  auto codec = openai::make_text_codec(std::move(tokenizer), load_template(model, options, site.log));
  // Workers may take shorter contexts than the model: as their KV caches or their own --max-model-len allow.
  // The longest context that any worker takes is known once workers join.
  auto max_model_len = std::make_shared<std::atomic<std::uint32_t>>(0);
  auto on_context = [max_model_len, log = site.log,
                     wanted = config.requests.max_model_len](std::uint32_t longest) {
    *max_model_len = longest;
    log.line("context",
             "requests may have " + std::to_string(std::min(longest, wanted)) + " tokens"
                 + (longest < wanted ? ", not " + std::to_string(wanted)
                                           + ": no worker takes more (its KV cache, or its --max-model-len)"
                                     : ""));
  };
  auto shown = std::make_shared<gateway_metrics>(std::move(families));
  shown->connections_limit(config.limits.max_connections);
  reload.tell([shown](bool good) { shown->reloaded(good); });
  actor_ = spawn_gateway(site.system, {.address = site.address,
                                       .directory = site.directory,
                                       .config_id = model::config_id_of(source.config),
                                       .on_context = std::move(on_context)});
  server_ = std::make_unique<http_server>(
      std::move(config), http::all_routes(),
      make_actor_backend(site.system, actor_, max_model_len,
                         [log = site.log](const request_event& event) { log_request(log, event); }),
      make_actor_control(site.system, {.directory = site.directory, .endpoints = site.scheduler_endpoints}),
      std::move(codec), std::move(shown), std::move(early));
  if (!options.tls_cert_file.empty()) {
    reloads_.push_back(reload.add([this, options, log = site.log] {
      auto identity = read_tls_identity(options);
      if (identity->has_expired(std::chrono::system_clock::now()))
        throw option_error("--tls-cert-file: " + identity->warning(std::chrono::system_clock::now())
                           + " again; until then the one that was read before is used");
      log_certificate(*identity, options, log);
      server_->set_certificate(std::move(identity));
    }));
  }
  if (!options.api_key_file.empty() || !options.operator_key_file.empty()) {
    // If a file cannot be read, the caller reports it and the keys stay as they are.
    reloads_.push_back(reload.add([this, options, log = site.log] {
      auto [keys, limits] = read_keys(options);
      const std::size_t num_names = keys.names().size();
      server_->set_keys(std::move(keys), limits);
      log.line("keys-read",
               std::to_string(num_names) + " names of API keys in " + options.api_key_file
                   + (options.api_key_file.empty() || options.operator_key_file.empty() ? "" : " and ")
                   + options.operator_key_file);
    }));
  }
  if (options.reload_interval_s > 0)
    reload.watch(std::move(watched), std::chrono::seconds{options.reload_interval_s});
}

void gateway_service::join() {
  membership_.emplace(site_, caf::actor_cast<caf::strong_actor_ptr>(actor_));
}

void gateway_service::stop(std::chrono::seconds lame_duck, std::chrono::seconds patience) {
  reloads_.clear(); // no reload is in progress from here on
  server_->leave();
  // Sleeps on this thread, so that a second signal ends the process at once.
  std::this_thread::sleep_for(lame_duck);
  server_->stop(patience);
  server_.reset();
  if (membership_)
    membership_->stop(std::chrono::seconds{1});
  actor_ = nullptr;
}

} // namespace troupe
