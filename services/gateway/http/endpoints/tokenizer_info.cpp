#include "services/gateway/http/endpoints/page.hpp"

namespace troupe::http {

response get_tokenizer_info(const request& /*asked*/, const api& shared) {
  return json_response(200, shared.config.tokenizer_info);
}

} // namespace troupe::http
