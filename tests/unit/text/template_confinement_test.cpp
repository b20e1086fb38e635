// What a template process cannot do even if a template escapes from Jinja2's sandbox into Python.
#include "services/gateway/text/chat_template.hpp"
#include "services/gateway/text/template_processes.hpp"
#include "tests/unit/text/template_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>

namespace troupe::text {

namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The value of Python's `expression` in a confined process.
std::string escaped(const std::string& before, const std::string& expression, bool filtered = true) {
  const auto quoted = [](const std::string& text) { return " \"" + text + "\""; };
  const std::string command = TROUPE_ESCAPED_TEMPLATE + quoted(before) + quoted(expression)
                              + (filtered ? "" : " unfiltered") + " 2>&1";
  FILE* const output = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> part{};
  for (std::size_t got = 0; (got = fread(part.data(), 1, part.size(), output)) > 0;)
    text.append(part.data(), got);
  const int status = pclose(output);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "status " + std::to_string(status) + text;
}

TEST(template_confinement, python_still_computes) {
  EXPECT_EQ(escaped("import json", "json.loads('[1]')[0] + sum(range(10**6))"), "499999500001");
}

TEST(template_confinement, files_are_out_of_reach) {
  for (const char* attempt : {"open('/etc/passwd')", "open('/tmp/troupe-escaped', 'w')", "os.listdir('/')",
                              "os.stat('/etc/passwd')", "os.mkdir('/tmp/troupe-escaped')",
                              "os.unlink('/tmp/troupe-escaped')", "os.open('/proc/self/mem', os.O_RDWR)"})
    EXPECT_THAT(escaped("import os", attempt), StartsWith("PermissionError(1")) << attempt;
}

TEST(template_confinement, the_network_is_out_of_reach) {
  for (const char* attempt : {"socket.socket()", "socket.socket(socket.AF_UNIX)", "socket.socketpair()"})
    EXPECT_THAT(escaped("import socket", attempt), StartsWith("PermissionError(1")) << attempt;
}

TEST(template_confinement, other_processes_are_out_of_reach) {
  for (const char* attempt : {"os.fork()", "os.execv('/bin/true', ['true'])", "os.kill(os.getppid(), 9)",
                              "os.posix_spawn('/bin/true', ['true'], {})", "os.memfd_create('x')"})
    EXPECT_THAT(escaped("import os", attempt), StartsWith("PermissionError(1")) << attempt;
}

TEST(template_confinement, limits_stay_and_nothing_new_is_executed) {
  EXPECT_THAT(escaped("import resource", "resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))"),
              HasSubstr("not allowed to raise maximum limit"));
  EXPECT_THAT(escaped("import mmap", "mmap.mmap(-1, 4096, prot=mmap.PROT_EXEC | mmap.PROT_WRITE)"),
              StartsWith("PermissionError(1"));
  EXPECT_THAT(escaped("import mmap", "len(mmap.mmap(-1, 4096))"), "4096");
}

TEST(template_confinement, without_a_filter_limits_refuse_files_and_sockets) {
  const std::string missing = "without seccomp: Operation not permitted: ";
  for (const char* attempt : {"open('/etc/passwd')", "open('/tmp/troupe-escaped', 'w')", "socket.socket()"})
    EXPECT_THAT(escaped("import socket", attempt, false), StartsWith(missing + "OSError(24")) << attempt;
}

/// The hour of the day in this process.
std::string hour() {
  const auto now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 8> text{};
  std::strftime(text.data(), text.size(), "%H", &local);
  return text.data();
}

TEST(template_confinement, the_time_zone_is_the_gateways) {
  for (const char* zone : {"XXX-9", "YYY+5"}) { // at least one is not the machine's
    setenv("TZ", zone, 1);
    tzset();
    const chat_template chat(std::make_shared<template_processes>(real_program()),
                             "{{ strftime_now('%H') }}");
    const auto before = hour();
    const auto rendered = chat.render({.messages = "[]"});
    EXPECT_THAT(rendered, testing::AnyOf(before, hour())) << zone;
  }
  unsetenv("TZ");
  tzset();
}

} // namespace

} // namespace troupe::text
