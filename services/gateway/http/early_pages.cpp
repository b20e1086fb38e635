#include "services/gateway/http/early_pages.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/metrics/page_source.hpp"

namespace troupe::http {

namespace {

class early_pages final : public metrics::page_source {
 public:
  early_pages(std::function<std::string()> loading, std::shared_ptr<const metrics::registry> families)
      : loading_(std::move(loading)), families_(std::move(families)) {}

  boost::asio::awaitable<metrics::page> answer(std::string path, std::string /*query*/) override {
    metrics::page shown;
    if (path == "/metrics") {
      shown.content_type = metrics::text_content_type;
      shown.body = families_->text();
      co_return shown;
    }
    const std::string text = loading_();
    nlohmann::ordered_json page;
    shown.content_type = "application/json";
    if (path == "/health") {
      page["status"] = "loading";
      page["reason"] = text.empty() ? "starting" : text;
    } else if (path == "/ready") {
      shown.status = 503;
      shown.headers = {{"retry-after", "1"}};
      page["ready"] = false;
      page["reason"] = text.empty() ? "starting" : "loading: " + text;
    } else {
      shown.status = 404;
      shown.content_type = "text/plain; charset=utf-8";
      shown.body = "starting; try /health, /metrics or /ready\n";
      co_return shown;
    }
    shown.body = page.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    co_return shown;
  }

 private:
  std::function<std::string()> loading_;
  std::shared_ptr<const metrics::registry> families_;
};

} // namespace

std::unique_ptr<metrics::endpoint> open_early_pages(const gateway_options& options,
                                                    std::function<std::string()> loading,
                                                    std::shared_ptr<const metrics::registry> families) {
  if (options.management_port == 0)
    return nullptr;
  return std::make_unique<metrics::endpoint>(
      metrics::endpoint_config{options.management_host, static_cast<std::uint16_t>(options.management_port)},
      std::make_shared<early_pages>(std::move(loading), std::move(families)));
}

} // namespace troupe::http
