// How long a gateway waits for chat templates: loading one, and rendering conversations of several lengths.
//
//   template_render MODEL_DIR
#include "services/gateway/text/chat_template.hpp"
#include "services/gateway/text/template_processes.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;

double milliseconds_since(clock_type::time_point begin) {
  return std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
}

std::string conversation(std::size_t turns) {
  std::string messages = "[";
  for (std::size_t i = 0; i < turns; ++i) {
    messages += R"({"role": "user", "content": "Tell me of the sea, and of the ships."},)"
                R"({"role": "assistant", "content": "The sea is wide; the ships are many."},)";
  }
  return messages + R"({"role": "user", "content": "Go on."}])";
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: template_render MODEL_DIR\n");
    return 2;
  }
  using namespace troupe::text;
  const auto begin = clock_type::now();
  const auto chat = chat_template::load(
      std::make_shared<template_processes>(template_process_options{.program = TROUPE_TEMPLATE_PROGRAM}),
      argv[1]);
  std::printf("load: %.1f ms\n", milliseconds_since(begin));
  for (const std::size_t turns : {1UL, 20UL, 2000UL}) {
    const auto messages = conversation(turns);
    std::vector<double> times;
    for (std::size_t i = 0; i < (turns > 100 ? 200 : 5000); ++i) {
      const auto started = clock_type::now();
      chat.render({.messages = messages});
      times.push_back(milliseconds_since(started));
    }
    std::sort(times.begin(), times.end());
    std::printf("%7zu bytes: p50 %.3f ms, p99 %.3f ms\n", messages.size(), times[times.size() / 2],
                times[times.size() * 99 / 100]);
  }
}
