// /cluster/placement: its requests, answers and refusals.
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

constexpr auto path = "/cluster/placement";

class placement_page_test : public http_server_test {
 protected:
  void SetUp() override {
    serve();
    backend->obey = [](const placement_command&) { return placement_change{}; };
  }

  /// The command from an accepted body.
  placement_command command_of(const std::string& body) {
    const raw_response answer = post(path, body);
    EXPECT_EQ(answer.status, 200) << body << answer.body;
    const placement_command last = backend->commands.empty() ? placement_command{} : backend->commands.back();
    backend->commands.clear();
    return last;
  }

  /// The error of a body that is refused before it reaches the cluster.
  json refusal_of(const std::string& body) {
    const raw_response answer = post(path, body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_TRUE(backend->commands.empty()) << body;
    return error_of(answer);
  }

  /// The whole answer when the cluster fails with this error.
  raw_response failed_with(ec code, const std::string& text) {
    backend->obey = [&](const placement_command&) { return backend_error{code, text}; };
    return post(path, R"({"action":"rebalance"})");
  }
};

placement_command command(placement_action action, std::vector<named_hosts> experts = {},
                          std::string worker = {}, std::uint32_t replicas = 0) {
  placement_command result;
  result.action = action;
  result.experts = std::move(experts);
  result.worker = std::move(worker);
  result.replicas = replicas;
  return result;
}

} // namespace

TEST_F(placement_page_test, every_action_becomes_its_command) {
  EXPECT_EQ(command_of(R"({"action":"rebalance"})"), command(placement_action::rebalance));
  EXPECT_EQ(command_of(R"({"action":"move","layer":3,"expert":5,"from":"expert-0","to":"expert-1"})"),
            command(placement_action::move, {{{3, 5}, {"expert-1"}}}, "expert-0"));
  EXPECT_EQ(command_of(R"({"action":"replicate","layer":3,"expert":5,"replicas":2})"),
            command(placement_action::replicate, {{{3, 5}, {}}}, "", 2));
  EXPECT_EQ(command_of(R"({"action":"pin","layer":0,"expert":0,"hosts":["a","b"]})"),
            command(placement_action::pin, {{{0, 0}, {"a", "b"}}}));
  EXPECT_EQ(command_of(R"({"action":"unpin","layer":0,"expert":4294967295})"),
            command(placement_action::unpin, {{{0, 4294967295U}, {}}}));
  EXPECT_EQ(command_of(R"({"action":"drain","worker":"expert-1"})"),
            command(placement_action::drain, {}, "expert-1"));
  EXPECT_EQ(command_of(R"({"action":"undrain","worker":"expert-1"})"),
            command(placement_action::undrain, {}, "expert-1"));
  EXPECT_EQ(command_of(R"({"action":"assign","experts":[{"layer":1,"expert":2,"hosts":["a"]},
                                                        {"layer":1,"expert":3,"hosts":["a","b"]}]})"),
            command(placement_action::assign, {{{1, 2}, {"a"}}, {{1, 3}, {"a", "b"}}}));
  EXPECT_EQ(command_of(R"({"action":"pause"})"), command(placement_action::pause));
  EXPECT_EQ(command_of(R"({"action":"resume"})"), command(placement_action::resume));
}

TEST_F(placement_page_test, every_action_may_be_a_dry_run) {
  auto expected = command(placement_action::drain, {}, "a");
  expected.dry_run = true;
  EXPECT_EQ(command_of(R"({"action":"drain","worker":"a","dry_run":true})"), expected);
  EXPECT_EQ(command_of(R"({"action":"resume","dry_run":false})"), command(placement_action::resume));
  EXPECT_EQ(json::parse(post(path, R"({"action":"rebalance","dry_run":true})").body)["dry_run"], true);
  EXPECT_EQ(json::parse(post(path, R"({"action":"rebalance"})").body)["dry_run"], false);
}

TEST_F(placement_page_test, a_change_is_told_whole) {
  backend->obey = [](const placement_command&) {
    return placement_change{
        7,
        "drain",
        2,
        4096,
        {1'234'567, 1'000'000, 3'500'000, 750'000},
        {1'200'000, 900'500, 4'000'000, 500'000},
        {{{3, 5}, {"expert-0"}, {"expert-0", "expert-1"}}, {{4, 0}, {"expert-2"}, {"?"}}}};
  };
  const raw_response answer = post(path, R"({"action":"drain","worker":"expert-2"})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body,
            R"({"change":7,"dry_run":false,"reason":"drain","moves":2,"bytes":4096,)"
            R"("before":{"step_us":1234.567,"busiest_us":1000.0,"messages":3.5,"max_share":0.75},)"
            R"("after":{"step_us":1200.0,"busiest_us":900.5,"messages":4.0,"max_share":0.5},)"
            R"("experts":[{"layer":3,"expert":5,"from":["expert-0"],"to":["expert-0","expert-1"]},)"
            R"({"layer":4,"expert":0,"from":["expert-2"],"to":["?"]}]})");
}

TEST_F(placement_page_test, the_state_before_anything_has_happened) {
  const raw_response page = get(path);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, R"({"planner":"off","change":null,"last":null,"pins":[],"replicas":[],"drained":[],)"
                       R"("imbalance":null,"wanted_workers":null})");
}

TEST_F(placement_page_test, the_state_with_everything_in_it) {
  auto& known = backend->planner;
  known.mode = planner_mode::on;
  placement_change change{9, "imbalance", 4, 800, {2000, 1500, 1'000'000, 0}, {1000, 500, 2'000'000, 250'000},
                          {}};
  change.experts = {{{3, 5}, {"expert-0"}, {"expert-0", "expert-1"}}};
  known.changes = {{change, 1, 0, 3, 1500}};
  change.experts.clear();
  change.id = 8;
  change.reason = "drain";
  known.changes.push_back({change, 3, 1, 0, 60'000});
  known.pins = {{{0, 1}, {"a", "b"}}};
  known.replicas = {{{2, 3}, {"4"}}};
  known.drained = {"c"};
  known.imbalance_ppm = 1'070'000;
  known.wanted_workers = 3;
  const std::string scores = R"("before":{"step_us":2.0,"busiest_us":1.5,"messages":1.0,"max_share":0.0},)"
                             R"("after":{"step_us":1.0,"busiest_us":0.5,"messages":2.0,"max_share":0.25}})";
  const std::string under_way =
      R"({"id":9,"reason":"imbalance","moves":4,"bytes":800,"moves_done":1,"moves_given_up":0,"moves_left":3,)"
      R"("elapsed_ms":1500,)"
      R"("in_flight":[{"layer":3,"expert":5,"from":["expert-0"],"to":["expert-0","expert-1"]}],)"
      + scores;
  const std::string over =
      R"({"id":8,"reason":"drain","moves":4,"bytes":800,"moves_done":3,"moves_given_up":1,"moves_left":0,)"
      R"("elapsed_ms":60000,)"
      + scores;
  EXPECT_EQ(get(path).body, R"({"planner":"on","change":)" + under_way + R"(,"last":)" + over
                                + R"(,"pins":[{"layer":0,"expert":1,"hosts":["a","b"]}],)"
                                  R"("replicas":[{"layer":2,"expert":3,"replicas":4}],"drained":["c"],)"
                                  R"("imbalance":1.07,"wanted_workers":3})");
  known.mode = planner_mode::paused;
  known.changes.erase(known.changes.begin());
  const json later = json::parse(get(path).body);
  EXPECT_EQ(later["planner"], "paused");
  EXPECT_EQ(later["change"], nullptr);
  EXPECT_EQ(later["last"]["id"], 8) << "one that is over is the last one, with none under way";
}

TEST_F(placement_page_test, an_action_that_is_not_there_is_told_what_there_is) {
  const std::string actions =
      "; there are 'rebalance', 'move', 'replicate', 'pin', 'unpin', 'drain', 'undrain', "
      "'assign', 'pause' and 'resume'";
  const json unknown = refusal_of(R"({"action":"shuffle"})");
  EXPECT_EQ(unknown["message"], "there is no action 'shuffle'" + actions);
  EXPECT_EQ(unknown["param"], "action");
  const json missing = refusal_of("{}");
  EXPECT_EQ(missing["message"], "'action' is missing" + actions);
  EXPECT_EQ(missing["param"], "action");
}

TEST_F(placement_page_test, members_are_checked_and_named) {
  struct {
    const char* body;
    const char* param;
    const char* message;
  } const cases[] = {
      {R"({"action":3})", "action", "'action' must be a string, not an integer"},
      {R"({"action":"pause","worker":"a"})", "worker",
       "'worker' is unknown; action 'pause' has 'action' and 'dry_run'"},
      {R"({"action":"move","layer":1,"expert":2,"from":"a","to":"b","hosts":[]})", "hosts",
       "'hosts' is unknown; action 'move' has 'action', 'layer', 'expert', 'from', 'to' and 'dry_run'"},
      {R"({"action":"move","layer":1,"expert":2,"from":"a"})", "to",
       "'to' is missing; action 'move' needs 'layer', 'expert', 'from' and 'to'"},
      {R"({"action":"move","expert":2,"from":"a","to":"b"})", "layer",
       "'layer' is missing; action 'move' needs 'layer', 'expert', 'from' and 'to'"},
      {R"({"action":"replicate","layer":1,"expert":2,"replicas":null})", "replicas",
       "'replicas' is missing; action 'replicate' needs 'layer', 'expert' and 'replicas'"},
      {R"({"action":"drain"})", "worker", "'worker' is missing; action 'drain' needs 'worker'"},
      {R"({"action":"drain","worker":""})", "worker", "'worker' must not be empty"},
      {R"({"action":"drain","worker":["a"]})", "worker", "'worker' must be a string, not an array"},
      {R"({"action":"pause","dry_run":"yes"})", "dry_run", "'dry_run' must be a boolean, not a string"},
      {R"({"action":"pin","layer":1,"expert":2,"hosts":"a"})", "hosts",
       "'hosts' must be an array, not a string"},
      {R"({"action":"pin","layer":1,"expert":2,"hosts":["a",1]})", "hosts",
       "'hosts' must be an array of names"},
      {R"({"action":"pin","layer":1,"expert":2,"hosts":[""]})", "hosts", "'hosts' must be an array of names"},
      {R"({"action":"assign"})", "experts", "'experts' is missing; action 'assign' needs 'experts'"},
      {R"({"action":"assign","experts":[1]})", "experts",
       "'experts' must be an array of objects with 'layer', 'expert' and 'hosts'"},
      {R"({"action":"assign","experts":[{"layer":1,"expert":2,"hosts":[]},{"layer":1,"hosts":[]}]})",
       "experts[1].expert",
       "'experts[1].expert' is missing; an entry of 'experts' has 'layer', 'expert' and 'hosts'"},
      {R"({"action":"assign","experts":[{"layer":1,"expert":2,"host":"a"}]})", "experts[0].host",
       "'experts[0].host' is unknown; an entry of 'experts' has 'layer', 'expert' and 'hosts'"},
  };

  for (const auto& wrong : cases) {
    const json error = refusal_of(wrong.body);
    EXPECT_EQ(error["message"], wrong.message) << wrong.body;
    EXPECT_EQ(error["param"], wrong.param) << wrong.body;
    EXPECT_EQ(error["type"], "invalid_request_error") << wrong.body;
  }
  for (const char* layer : {"-1", "1.5", "4294967296", "\"1\"", "true"})
    EXPECT_EQ(refusal_of(R"({"action":"unpin","expert":0,"layer":)" + std::string(layer) + "}")["param"],
              "layer")
        << layer;
  EXPECT_EQ(refusal_of(R"({"action":"replicate","layer":1,"expert":2,"replicas":0})")["param"], "replicas");
  for (const char* body : {"", "[]", "{", "null", "{\"action\":\"pause\"}x"})
    EXPECT_EQ(post(path, body).status, 400) << body;
}

TEST_F(placement_page_test, bodies_are_bounded) {
  const std::string entry = R"({"layer":0,"expert":0,"hosts":[]},)";
  std::string body = R"({"action":"assign","experts":[)";
  for (std::size_t i = 0; i < max_assigned_experts; ++i)
    body += entry;
  EXPECT_EQ(command_of(body.substr(0, body.size() - 1) + "]}").experts.size(), max_assigned_experts);
  EXPECT_EQ(refusal_of(body + R"({"layer":0,"expert":0,"hosts":[]}]})")["message"],
            "'experts' has 65537 entries; at most 65536 are possible");
  const raw_response large =
      post(path, R"({"action":"pause")" + std::string(std::size_t{8} << 20, ' ') + "}");
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(error_of(large)["message"], "the request body is larger than 8388608 bytes");
}

TEST_F(placement_page_test, failures_of_the_cluster_have_their_status) {
  const raw_response wrong = failed_with(ec::bad_request, "no expert worker is named 'x'");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(error_of(wrong)["message"], "no expert worker is named 'x'");
  EXPECT_EQ(error_of(wrong)["code"], "bad_request");
  const raw_response busy = failed_with(ec::not_ready, "change 3 is under way");
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.headers.at("retry-after"), "2");
  EXPECT_EQ(error_of(busy)["message"], "change 3 is under way");
  const raw_response full = failed_with(ec::overloaded, "16 commands wait already");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.headers.at("retry-after"), "1");
  EXPECT_EQ(failed_with(ec::engine_failed, "the disk is full").status, 500);
  for (const ec code : {ec::deadline_exceeded, ec::peer_down}) {
    const raw_response open = failed_with(code, "it may have been carried out");
    EXPECT_EQ(open.status, 503);
    EXPECT_FALSE(open.headers.contains("retry-after")) << "nobody should repeat it without looking";
  }
  backend->scheduler_away = true;
  const raw_response away = get(path);
  EXPECT_EQ(away.status, 503);
  EXPECT_EQ(error_of(away)["message"], "the rebalancer does not answer");
}

} // namespace troupe::http_test
