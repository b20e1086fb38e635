// Specifics of TLS: handshakes and their failures, changing certificates, announced ends.
#include <future>
#include <mutex>
#include <thread>

#include <openssl/ssl.h>

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using std::chrono::milliseconds;

class tls_test : public http_server_test {
 protected:
  tls_test() { use_tls(); }

  std::unique_ptr<tls_client> shake(const tls_client_options& options = {}) const {
    auto client = std::make_unique<tls_client>(port, options);
    EXPECT_TRUE(client->shake_hands());
    return client;
  }

  /// Which side fails first, and why.
  std::future<std::string> failed_handshake() {
    auto told = std::make_shared<std::promise<std::string>>();
    config.handshake_failed = [told](const std::string& client, const std::string& reason) {
      told->set_value(client + " " + reason);
    };
    return told->get_future();
  }

  double failures(const std::string& reason) const {
    return metric("troupe_tls_handshake_failures_total{reason=\"" + reason + "\"}");
  }
};

constexpr const char* prompt = R"({"prompt":"a"})";
constexpr const char* stream = R"({"prompt":"a","stream":true})";

} // namespace

TEST_F(tls_test, a_client_that_trusts_the_certificate_is_answered) {
  serve();
  const auto client = shake({certificate.certificate, "\x02h2\x08http/1.1", 0, 0});
  EXPECT_EQ(client->version(), "TLSv1.3");
  EXPECT_EQ(client->chosen_protocol(), "http/1.1");
  EXPECT_EQ(client->server_name(), "gateway");
  client->request("POST", "/v1/completions", prompt);
  EXPECT_EQ(json::parse(client->read().body)["choices"][0]["text"], "hello wörld");
  client->request("POST", "/v1/completions", stream);
  const auto events = events_of(client->read().body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back(), "[DONE]");
  client->request("GET", "/health", {}, "Connection: close\r\n");
  EXPECT_EQ(client->read().status, 200);
  EXPECT_TRUE(client->ends());
  EXPECT_TRUE(client->was_told_the_end());
}

TEST_F(tls_test, tls_1_2_is_spoken_and_what_is_older_is_not) {
  serve();
  const auto client = shake({certificate.certificate, "", TLS1_2_VERSION, 0});
  client->request("GET", "/health");
  EXPECT_EQ(client->read().status, 200);
  EXPECT_EQ(client->version(), "TLSv1.2");
  tls_client old{port, {{}, "", TLS1_1_VERSION, 0}};
  EXPECT_FALSE(old.shake_hands());
  EXPECT_EQ(failures("protocol"), 1);
}

TEST_F(tls_test, a_client_that_wants_another_protocol_is_refused) {
  serve();
  tls_client client{port, {{}, "\x02h2", 0, 0}};
  EXPECT_FALSE(client.shake_hands());
  EXPECT_EQ(failures("protocol"), 1);
}

TEST_F(tls_test, who_speaks_plain_http_is_told_so_in_plain_http) {
  std::vector<http::access_record> told;
  std::mutex mutex;
  config.access = [&](const http::access_record& record) {
    if (record.status != 400)
      return; // may come when this test is over
    const std::lock_guard lock{mutex};
    told.push_back(record);
  };
  serve();
  raw_client client{port};
  client.request("POST", "/v1/completions", std::string(1 << 20, 'x'));
  const raw_response refused = client.read();
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error_of(refused)["code"], "tls_expected");
  EXPECT_EQ(error_of(refused)["message"], "This port speaks TLS: begin the URL with https://");
  EXPECT_TRUE(client.ends());
  EXPECT_EQ(failures("plain_http"), 1);
  const std::lock_guard lock{mutex};
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].path, "-");
}

TEST_F(tls_test, what_is_no_tls_at_all_ends) {
  auto failed = failed_handshake();
  serve();
  raw_client client{port};
  client.send("\x16\x03\x01" + std::string(100, 'x'));
  client.read_until("never"); // an alert
  EXPECT_TRUE(client.ends());
  ASSERT_EQ(failed.wait_for(std::chrono::seconds{10}), std::future_status::ready);
  EXPECT_EQ(failed.get().find("127.0.0.1:"), 0U);
  EXPECT_EQ(failures("protocol"), 1);
}

TEST_F(tls_test, a_handshake_has_the_time_of_a_header) {
  config.limits.header = milliseconds{500}; // the metrics are asked for within it, too
  serve();
  raw_client silent{port};
  EXPECT_TRUE(silent.ends());
  raw_client half{port};
  half.send("\x16\x03\x01\x02");
  EXPECT_TRUE(half.ends());
  EXPECT_EQ(failures("timeout"), 2);
}

TEST_F(tls_test, a_client_that_leaves_its_handshake_is_counted_as_that) {
  auto failed = failed_handshake();
  serve();
  {
    raw_client half{port};
    half.send("\x16\x03\x01\x02");
  }
  ASSERT_EQ(failed.wait_for(std::chrono::seconds{10}), std::future_status::ready);
  EXPECT_EQ(failures("left"), 1);
}

TEST_F(tls_test, a_silent_client_loses_its_place_to_one_that_asks) {
  config.limits.max_connections = 1;
  serve();
  raw_client silent{port};
  const auto client = connect();
  client->request("GET", "/health");
  EXPECT_EQ(client->read().status, 200);
  EXPECT_TRUE(silent.ends());
}

TEST_F(tls_test, connections_of_a_peer_are_bounded_before_the_handshake) {
  config.limits.max_connections_per_peer = 1;
  config.management_port = 0;
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  const auto first = connect();
  first->request("POST", "/v1/completions", R"({"prompt":"h"})");
  ASSERT_NE(backend->job(0), nullptr) << "it has a request in progress, so that it makes no room";
  tls_client second{port};
  EXPECT_FALSE(second.shake_hands());
  EXPECT_NE(ask(server->management_port(), "GET", "/metrics")
                .body.find("troupe_http_connections_refused_total{reason=\"peer\"} 1\n"),
            std::string::npos);
}

TEST_F(tls_test, new_connections_get_the_new_certificate_and_old_ones_go_on) {
  serve();
  const auto old = shake();
  EXPECT_EQ(old->server_name(), "gateway");
  const auto renewed = make_certificate(*folder, "renewed", std::chrono::hours{24 * 300});
  const auto identity = http::tls_identity::load(renewed.certificate, renewed.key);
  server->set_certificate(identity);
  const auto fresh = shake({renewed.certificate, "", 0, 0});
  EXPECT_EQ(fresh->server_name(), "renewed");
  for (const auto& client : {old.get(), fresh.get()}) {
    client->request("POST", "/v1/completions", stream);
    EXPECT_TRUE(client->read().complete);
  }
  certificate = renewed;
  EXPECT_EQ(metric("troupe_tls_certificate_not_after_seconds"),
            std::chrono::duration<double>(identity->not_after().time_since_epoch()).count());
}

TEST_F(tls_test, a_stop_tells_idle_clients_that_it_is_the_end) {
  serve();
  const auto client = shake();
  client->request("GET", "/health");
  EXPECT_EQ(client->read().status, 200);
  server->stop(milliseconds{10000});
  EXPECT_TRUE(client->ends());
  EXPECT_TRUE(client->was_told_the_end());
}

// The answer ends while half of the next request's record has arrived: that half must not be lost.
TEST_F(tls_test, half_a_record_waits_for_its_other_half) {
  std::atomic<bool> go_on{false};
  play = [&go_on](fake_job& job) {
    while (!go_on)
      std::this_thread::yield();
    fake_backend::say_hello(job);
  };
  serve();
  const auto client = shake();
  for (int round = 0; round < 50; ++round) {
    go_on = false;
    client->request("POST", "/v1/completions", prompt);
    ASSERT_NE(backend->job(static_cast<std::size_t>(round)), nullptr);
    const std::string next = client->seal("GET /health HTTP/1.1\r\nHost: test\r\n\r\n");
    client->send_sealed(next.substr(0, next.size() / 2));
    go_on = true;
    ASSERT_EQ(client->read().status, 200) << round;
    client->send_sealed(next.substr(next.size() / 2));
    ASSERT_EQ(client->read().status, 200) << round;
  }
}

// A client that never completes its record must not keep its connection beyond the deadlines.
TEST_F(tls_test, half_a_record_for_ever_ends_with_the_idle_time) {
  config.limits.idle = milliseconds{200};
  serve();
  const auto client = shake();
  client->request("POST", "/v1/completions", prompt);
  ASSERT_NE(backend->job(0), nullptr);
  const std::string next = client->seal("GET /health HTTP/1.1\r\nHost: test\r\n\r\n");
  client->send_sealed(next.substr(0, next.size() / 2));
  EXPECT_EQ(client->read().status, 200);
  EXPECT_TRUE(client->ends());
}

TEST_F(tls_test, a_client_that_says_the_end_cancels_its_sequences) {
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  const auto client = shake();
  client->request("POST", "/v1/completions", prompt);
  ASSERT_NE(backend->job(0), nullptr);
  EXPECT_TRUE(client->say_the_end());
  EXPECT_TRUE(backend->job(0)->wait_cancelled());
}

TEST_F(tls_test, a_body_that_is_refused_may_be_written_to_its_end) {
  config.limits.max_body_bytes = 1000;
  serve();
  const auto client = shake();
  client->request("POST", "/v1/completions", std::string(4 << 20, 'x'));
  EXPECT_EQ(client->read().status, 413);
  EXPECT_TRUE(client->ends());
  EXPECT_TRUE(client->was_told_the_end());
}

TEST_F(tls_test, the_management_port_stays_plain) {
  config.management_port = 0;
  serve();
  EXPECT_EQ(ask(server->management_port(), "GET", "/health").status, 200);
}

} // namespace troupe::http_test
