// Keeps the tables of docs/metrics.md equal to the catalogue.
//
// usage:
//    metrics_table --check FILE   exits with status 1 if the tables between the marks of FILE differ
//    metrics_table --write FILE   writes them there
//    metrics_table --json         prints the catalogue
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "services/metrics/catalogue.hpp"

namespace {

constexpr std::string_view begin_mark = "<!-- made by metrics_table: begin -->\n";
constexpr std::string_view end_mark = "<!-- made by metrics_table: end -->\n";

std::string read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw std::runtime_error("cannot read " + file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The document with the catalogue's tables between its marks.
std::string with_tables(const std::string& document, const std::string& file) {
  const auto begin = document.find(begin_mark);
  const auto end = document.find(end_mark);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw std::runtime_error(file + " lacks the lines between which the tables stand: "
                             + std::string(begin_mark) + "and " + std::string(end_mark));
  return document.substr(0, begin + begin_mark.size()) + "\n" + troupe::metrics::catalogue_tables() + "\n"
         + document.substr(end);
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "--json") {
    std::cout << troupe::metrics::catalogue_json();
    return 0;
  }
  if (words.size() != 2 || (words[0] != "--check" && words[0] != "--write")) {
    std::cerr << "usage: metrics_table --check FILE | --write FILE | --json\n";
    return 2;
  }
  const std::string& file = words[1];
  const std::string document = read(file);
  const std::string wanted = with_tables(document, file);
  if (document == wanted)
    return 0;
  if (words[0] == "--check") {
    std::cerr << file << " is not what services/metrics/catalogue_*.cpp says; run: metrics_table --write "
              << file << '\n';
    return 1;
  }
  std::ofstream out(file, std::ios::binary);
  out << wanted;
  out.close();
  if (!out)
    throw std::runtime_error("cannot write " + file);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "metrics_table: " << error.what() << '\n';
    return 1;
  }
}
