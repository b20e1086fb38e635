// Bytes of a client on an HTTP connection: the first byte gives the size of pieces, the rest is the stream.
// For any input, the server answers in HTTP or closes, every refusal is one error in OpenAI's form, and the
// connection ends when its client has finished.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "services/gateway/http/background.hpp"
#include "services/gateway/http/connection.hpp"
#include "services/gateway/http/endpoints/routes.hpp"
#include "services/gateway/http/health.hpp"
#include "tests/unit/http/fake_codec.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

namespace {

using namespace troupe;
namespace bhttp = boost::beast::http;

/// After this time without an event the server has finished: the client ends its side.
constexpr auto quiet = std::chrono::milliseconds{1};

void require(bool holds) {
  if (!holds)
    std::abort();
}

struct no_handle final : generation_handle {
  void stop(std::uint32_t) override {}

  void cancel() override {}
};

/// Answers with one letter for every choice, at once.
struct terse_backend final : generation_backend {
  std::unique_ptr<generation_handle> start(generation_job job,
                                           std::shared_ptr<generation_listener> listener) override {
    generated_token letter;
    letter.token = 'a';
    for (std::uint32_t choice = 0; choice < job.num_choices; ++choice)
      listener->on_tokens(choice, {letter}, finish_reason::length);
    return std::make_unique<no_handle>();
  }

  std::uint32_t max_model_len() const override { return 0; }

  void view(std::function<void(std::variant<last_view, backend_error>)> then) override {
    last_view ready;
    ready.cluster.ready = true;
    ready.has_been_ready = true;
    then(ready);
  }
};

struct terse_control final : control_backend {
  void ask(const control_question& question, std::function<void(control_outcome)> then) override {
    then(std::visit([](const auto& asked) { return answer(asked); }, question));
  }

  static control_outcome answer(const status_question&) {
    return backend_error{ec::peer_down, "the scheduler is away"};
  }

  static control_outcome answer(const history_question&) {
    return history_snapshot{
        "model", {2, 0}, 1, 2, 3, 4, {{0.5, 0}, {}}, {{{7}, 1, 2, encode({1, {1, 1, {{0, 2}, {}}}})}}};
  }

  static control_outcome answer(const placement_question&) { return rebalancer_status{}; }

  static control_outcome answer(const trace_command&) { return trace_receipt{}; }

  static control_outcome answer(const placement_command& command) {
    placement_change change;
    for (const auto& expert : command.experts)
      change.experts.push_back({expert.expert, {command.worker}, expert.hosts});
    return change;
  }
};

/// All that connections share; one for all inputs.
struct server {
  server() {
    config.model_names = {"tiny"};
    config.requests.max_model_len = 64;
    config.requests.vocab_size = http_test::vocab_size;
    config.requests.max_sequences = 4;
    config.requests.eos_token_ids = {http_test::eos};
    config.limits.max_header_bytes = 1024;
    config.limits.max_body_bytes = 1024;
    config.limits.max_pipelined_bytes = 512;
    config.limits.idle = std::chrono::milliseconds{50};
    config.allowed_origins = {"*"};
  }

  http_server_config config;
  std::shared_ptr<metrics::registry> families = std::make_shared<metrics::registry>("troupe_");
  std::shared_ptr<gateway_metrics> told = std::make_shared<gateway_metrics>(families);
  http::background work{1, 8 << 20, std::chrono::seconds{10}, told};
  http::health vitals{
      {std::chrono::seconds{30}, std::chrono::seconds{60}, std::chrono::seconds{5}, std::chrono::seconds{1}},
      [this] { return work.now(); }};
  http::api shared{config,
                   std::make_shared<terse_backend>(),
                   std::make_shared<terse_control>(),
                   std::make_shared<http_test::fake_codec>(),
                   told,
                   work,
                   vitals};
  http::connection_context context{config, http::all_routes(), *told};
  http::connection_table places{1, 1};
};

/// Sends `input` on a connection and returns all output.
std::string converse(std::string_view input, std::size_t step) {
  static server serving;
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const int room = 1 << 20;
  ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  std::string said;
  const auto listen = [&] {
    char bytes[65536];
    for (ssize_t got = 0; (got = ::recv(ends[0], bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
      said.append(bytes, static_cast<std::size_t>(got));
  };
  boost::asio::io_context io{1};
  // Keeps the loop running for a connection that only waits for the tokenizer's thread.
  const auto guard = boost::asio::make_work_guard(io);
  boost::asio::ip::tcp::socket socket{io};
  socket.assign(boost::asio::ip::tcp::v4(), ends[1]);
  bool ended = false;
  const auto peer = parse_network_address("127.0.0.1");
  require(peer.has_value());
  auto admitted = serving.places.admit(*peer);
  require(admitted.result == http::connection_table::outcome::admitted);
  auto one = std::make_shared<http::connection>(std::move(socket), serving.shared, serving.context,
                                                std::move(admitted.taken), *peer);
  const auto executor = io.get_executor();
  auto serve = one->run();
  boost::asio::co_spawn(executor, std::move(serve),
                        [&ended, one = std::move(one)](const std::exception_ptr& failure) mutable {
                          require(failure == nullptr);
                          one.reset();
                          ended = true;
                        });
  while (!input.empty()) {
    const auto piece = input.substr(0, step);
    input.remove_prefix(piece.size());
    if (::send(ends[0], piece.data(), piece.size(), MSG_NOSIGNAL) < 0)
      break;
    io.poll();
    listen();
  }
  while (io.run_one_for(quiet) > 0)
    listen();
  ::shutdown(ends[0], SHUT_WR);
  while (!ended) { // the fuzzer's -timeout finds a connection that never ends
    io.run_one();
    listen();
  }
  listen();
  ::close(ends[0]);
  return said;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2)
    return 0;
  const std::string_view input{reinterpret_cast<const char*>(data) + 1, size - 1};
  // Few pieces: a long input of single bytes would take too long.
  const std::size_t step = std::max(std::size_t{data[0]} + 1, input.size() / 16);
  const std::string said = converse(input, step);
  std::string_view rest = said;
  while (!rest.empty()) {
    bhttp::response_parser<bhttp::string_body> answer;
    answer.eager(true);
    // Answers to HEAD look truncated; this test does not count them.
    const bool maybe_head = input.find("HEAD") != std::string_view::npos;
    answer.skip(maybe_head);
    boost::beast::error_code error;
    const std::size_t used = answer.put(boost::asio::buffer(rest.data(), rest.size()), error);
    if (error == bhttp::error::need_more)
      break; // cut off by the client's end
    require(!error);
    rest.remove_prefix(used);
    if (maybe_head || !answer.is_done())
      break;
    if (answer.get().result_int() < 400)
      continue;
    const auto body = nlohmann::json::parse(answer.get().body(), nullptr, false);
    require(body.is_object() && body.contains("error") && body["error"].is_object()
            && !body["error"].value("message", "").empty());
  }
  return 0;
}
