// Templates that harm the process that renders them, and their effect on other requests.
#include "services/gateway/text/chat_template.hpp"
#include "services/gateway/text/template_processes.hpp"
#include "services/gateway/text/text_error.hpp"
#include "tests/unit/text/template_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::text {

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* one_user = R"([{"role": "user", "content": "hi"}])";
constexpr const char* well_behaved = "{{ messages[0].content }}";

/// The lines that an operator gets.
class kept_log {
 public:
  void operator()(std::string_view event, const std::string& text) {
    const std::scoped_lock lock(mutex_);
    lines_.push_back(std::string(event) + ": " + text);
    changed_.notify_all();
  }

  /// Waits for a line that contains this; returns the line, or nothing after ten seconds.
  std::string await(const std::string& what) {
    std::unique_lock lock(mutex_);
    std::string found;
    changed_.wait_for(lock, 10s, [&] {
      const auto line = std::find_if(lines_.begin(), lines_.end(), [&](const std::string& one) {
        return one.find(what) != std::string::npos;
      });
      found = line == lines_.end() ? "" : *line;
      return !found.empty();
    });
    return found;
  }

  std::size_t count(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::size_t>(std::count_if(lines_.begin(), lines_.end(), [&](const std::string& one) {
      return one.find(what) != std::string::npos;
    }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

/// A separate pool for each test, and a model with a harmless template.
class hostile_template : public testing::Test {
 protected:
  void start(template_process_options options = {}) {
    options.log = [log = log_](std::string_view event, const std::string& text) { (*log)(event, text); };
    processes_ = std::make_shared<template_processes>(real_program(std::move(options)));
    model_ = std::make_unique<const chat_template>(processes_, well_behaved);
  }

  /// The result of a request with this template.
  std::string render(const std::string& source, std::chrono::milliseconds limit = 5s) const {
    return model_->render({.messages = one_user, .source = source, .time_limit = limit});
  }

  void expect_refused(const std::string& source, const std::string& what,
                      std::chrono::milliseconds limit = 5s) const {
    EXPECT_THAT([&] { render(source, limit); }, ThrowsMessage<template_error>(HasSubstr(what))) << source;
    expect_works();
  }

  /// Others get their prompts, without waiting for another request's deadline.
  void expect_works() const {
    const auto begin = steady_clock::now();
    EXPECT_EQ(model_->render({.messages = one_user}), "hi");
    EXPECT_LT(steady_clock::now() - begin, 4s);
  }

  std::shared_ptr<kept_log> log_ = std::make_shared<kept_log>();
  std::shared_ptr<template_processes> processes_;
  std::unique_ptr<const chat_template> model_;
};

TEST_F(hostile_template, one_that_computes_without_end_is_killed_at_the_deadline) {
  start();
  const auto late = "rendering the chat template takes more than 300 ms";
  const auto begin = steady_clock::now();
  // In C code of Python, which cannot be interrupted: at compilation, since it is constant, and at run time.
  expect_refused("{{ 9**(9**9) }}", late, 300ms);
  expect_refused("{{ messages | length + 8 ** (9**9) }}", late, 300ms);
  // In Python's own code.
  expect_refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", late,
                 300ms);
  EXPECT_GE(steady_clock::now() - begin, 900ms);
  EXPECT_EQ(log_->count("template-process-ended"), 3U);
}

TEST_F(hostile_template, one_that_swallows_memory_is_told_so) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer needs terabytes of addresses, so that the template's process has no "
                  "limit of memory";
#endif
  start();
  const auto memory = "it takes more memory than chat templates may have";
  expect_refused("{{ 'a' * (7 * 10**9) }}", memory);
  expect_refused("{{ messages[0].content * (7 * 10**9) }}", memory);
  expect_refused("{{ (messages * (10**9)) | length }}", memory);
}

TEST_F(hostile_template, many_small_pieces_of_memory_end_there_too) {
  start({.memory_bytes = 256UL << 20U});
  EXPECT_THROW(render("{% set ns = namespace(l=[]) %}{% for i in range(99999) %}"
                      "{% set ns.l = [ns.l, 'x' * 9999 ~ i] %}{% endfor %}"),
               template_error);
  expect_works();
}

TEST_F(hostile_template, deep_recursion_ends) {
  start();
  expect_refused("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "RecursionError");
  std::string nested = "1";
  for (int i = 0; i < 20'000; ++i)
    nested = "(" + nested + ")";
  EXPECT_THROW(render("{{ " + nested + " }}"), template_error);
  expect_works();
}

TEST_F(hostile_template, megabytes_of_output_are_a_prompt_until_they_are_too_many) {
  start();
  constexpr auto limit = 30s; // this limits size, not time
  EXPECT_EQ(render("{{ 'a' * (32 * 2**20) }}", limit), std::string(32UL << 20U, 'a'));
  expect_refused("{{ 'a' * (64 * 2**20 + 1) }}", "the rendered prompt is over 64 MiB", limit);
  expect_refused("{{ 'ü' * (32 * 2**20 + 1) }}", "the rendered prompt is over 64 MiB", limit);
  expect_refused("{{ raise_exception('a' * (64 * 2**20)) }}", "fails with a message of over 64 KiB", limit);
}

/// Child processes of this one that run this program.
std::vector<pid_t> children() {
  std::vector<pid_t> out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream of_task(task.path() / "children");
    for (pid_t pid = 0; of_task >> pid;)
      out.push_back(pid);
  }
  return out;
}

/// Whether a condition without an event becomes true within ten seconds.
template <class F>
bool await(F&& is_true) {
  for (const auto begin = steady_clock::now(); steady_clock::now() - begin < 10s; std::this_thread::yield())
    if (is_true())
      return true;
  return false;
}

/// CPU time of a process in clock ticks, mostly of 10 ms.
long computed(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  for (int field = 1; field < 14; ++field)
    stat >> word;
  long ticks = 0;
  stat >> ticks;
  return ticks;
}

TEST_F(hostile_template, one_that_is_killed_from_outside_costs_its_request) {
  start({.most = 1});
  expect_works();
  const auto all = children();
  ASSERT_EQ(all.size(), 1U);
  const auto victim = all.front();
  std::thread killer([&, before = computed(victim)] {
    EXPECT_TRUE(await([&] { return computed(victim) > before + 5; })) << "it is in the middle of the render";
    kill(victim, SIGKILL);
  });
  EXPECT_THAT([&] { render("{{ 9**(9**9) }}"); },
              ThrowsMessage<template_error>("the process that rendered the chat template died (signal 9)"));
  killer.join();
  expect_works();
  EXPECT_NE(children().at(0), victim);
}

TEST_F(hostile_template, one_that_dies_idle_costs_nobody_anything) {
  start();
  for (int round = 0; round < 3; ++round) {
    const auto victims = children();
    ASSERT_FALSE(victims.empty());
    for (const auto pid : victims)
      kill(pid, SIGKILL);
    EXPECT_TRUE(await([&] {
      const auto now = children();
      return std::none_of(victims.begin(), victims.end(),
                          [&](pid_t pid) { return std::find(now.begin(), now.end(), pid) != now.end(); });
    })) << "what has died is buried and replaced before anybody asks";
    expect_works();
  }
  EXPECT_NE(log_->await("it died while it had nothing to do"), "");
}

TEST_F(hostile_template, others_render_while_one_hangs) {
  start({.most = 2});
  expect_works();
  std::thread hanging([&] { EXPECT_THROW(render("{{ 9**(9**9) }}", 2s), template_error); });
  for (int i = 0; i < 20; ++i)
    expect_works();
  hanging.join();
}

TEST_F(hostile_template, waiting_for_one_ends_in_time_and_is_not_the_clients_fault) {
  start({.most = 1});
  std::thread hanging([&] { EXPECT_THROW(render("{{ 9**(9**9) }}", 2s), template_error); });
  std::string refusal;
  EXPECT_TRUE(await([&] { // until the other request has the process
    try {
      render(well_behaved, 100ms);
    } catch (const text_unavailable& e) {
      refusal = e.what();
    }
    return !refusal.empty();
  }));
  EXPECT_EQ(refusal, "other conversations have kept the chat template busy for 100 ms");
  hanging.join();
  expect_works();
}

TEST_F(hostile_template, there_are_no_more_than_asked_for_and_none_before_one_is_needed) {
  processes_ = std::make_shared<template_processes>(real_program({.most = 3}));
  EXPECT_EQ(children().size(), 0U);
  const chat_template chat(processes_, well_behaved);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        EXPECT_EQ(chat.render({.messages = one_user}), "hi");
    });
  }
  for (auto& one : threads)
    one.join();
  EXPECT_LE(children().size(), 3U);
}

/// Replaces the real program: a Python script whose descriptor 3 is the gateway's.
class other_program : public hostile_template {
 protected:
  other_program()
      : file_(std::filesystem::temp_directory_path() / ("template_program." + std::to_string(getpid()))) {}

  ~other_program() override { std::filesystem::remove(file_); }

  std::shared_ptr<template_processes> start_script(const std::string& body) {
    std::ofstream(file_) << "#!/usr/bin/python3 -I\n"
                            "import os, socket, struct, time\n"
                            "s = socket.socket(fileno=3)\n"
                            "def say(*strings):\n"
                            "    s.sendall(struct.pack(f'={len(strings) + 1}I', len(strings), *map(len, "
                            "strings)) + b''.join(strings))\n"
                         << body;
    chmod(file_.c_str(), 0700);
    template_process_options options{.program = file_, .start_limit = 5s};
    options.log = [log = log_](std::string_view event, const std::string& text) { (*log)(event, text); };
    return std::make_shared<template_processes>(std::move(options));
  }

  static void expect_error(template_processes& processes, const std::string& what) {
    EXPECT_THAT([&] { processes.ask({.task = "render", .keep = "0"}, 3s); },
                ThrowsMessage<template_error>(HasSubstr(what)));
  }

  std::filesystem::path file_;
};

TEST_F(other_program, garbage_is_an_error_of_its_request) {
  const std::string ready = "say(b'ready', b'')\ns.recv(1)\n";
  const std::string wait = "\ntime.sleep(60)\n";
  expect_error(*start_script(ready + "s.sendall(b'x' * 100)" + wait),
               "gave 2021161080 strings where 2 are expected");
  expect_error(*start_script(ready + "s.sendall(struct.pack('=3I', 2, 2**31, 2**31))" + wait),
               "gave a message of 4294967296 bytes");
  expect_error(*start_script(ready + "say(b'valid', b'')" + wait), "gave an answer of no kind");
  expect_error(*start_script(ready + "say(b'prompt', b'', b'')" + wait),
               "gave 3 strings where 2 are expected");
  expect_error(*start_script(ready + "s.sendall(struct.pack('=3I', 2, 6, 10) + b'prompt')\nos._exit(3)\n"),
               "died (status 3)");
  expect_error(*start_script(ready + "s.sendall(struct.pack('=3I', 2, 6, 10) + b'prompt')" + wait),
               "takes more than 3000 ms");
}

TEST_F(other_program, an_answer_that_nobody_asked_for_is_nobodys) {
  const auto processes = start_script("say(b'ready', b'')\ns.recv(999)\n"
                                      "one = struct.pack('=3I', 2, 6, 4) + b'prompt'\n"
                                      "s.sendall(one + b'mine' + one + b'none')\ntime.sleep(60)\n");
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(processes->ask({.task = "render", .keep = "0"}, 5s).text, "mine");
  EXPECT_NE(log_->await("it died while it had nothing to do"), "");
}

TEST_F(other_program, one_that_cannot_start_is_an_error_at_once_and_tried_ever_more_seldom) {
  const auto processes = start_script("say(b'failed', b'no Jinja2 here')\n");
  EXPECT_THAT([&] { chat_template(processes, well_behaved); },
              ThrowsMessage<text_error>(HasSubstr("no Jinja2 here")));
  EXPECT_NE(log_->await("template-process-failed"), "");
  const auto begin = steady_clock::now();
  while (steady_clock::now() - begin < 1s)
    EXPECT_THROW(processes->ask({.task = "render", .keep = "0"}, 100ms), text_unavailable);
  EXPECT_LE(log_->count("template-process-failed"), 7U) << "pauses of 0, 50, 100, 200, 400 ms and more";
}

TEST_F(other_program, a_missing_program_is_named) {
  template_processes none({.program = "/no/such/troupe-template"});
  EXPECT_THAT([&] { none.ask({.task = "check", .keep = "0"}, 5s); },
              ThrowsMessage<text_unavailable>(
                  "chat templates: /no/such/troupe-template: cannot be started: No such file or directory"));
}

} // namespace

} // namespace troupe::text
