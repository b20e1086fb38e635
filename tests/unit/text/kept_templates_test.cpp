// What a template process keeps: the model's own templates, and nothing from requests.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "services/gateway/template/python_renderer.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace troupe::text {

namespace {

/// The integer value of a Python expression over jinja_environment.py's names.
long evaluate(const std::string& expression) {
  const auto state = PyGILState_Ensure();
  PyObject* const module = PyImport_ImportModule("troupe_jinja_environment");
  PyObject* const names = module == nullptr ? nullptr : PyModule_GetDict(module); // belongs to the module
  PyObject* const value =
      names == nullptr ? nullptr : PyRun_String(expression.c_str(), Py_eval_input, names, names);
  const long result = value == nullptr ? -1 : PyLong_AsLong(value);
  const bool failed = PyErr_Occurred() != nullptr;
  if (failed)
    PyErr_Print();
  Py_XDECREF(value);
  Py_XDECREF(module);
  PyGILState_Release(state);
  if (failed)
    throw std::runtime_error(expression);
  return result;
}

/// The number of compiled templates alive.
long living_templates() {
  return evaluate("[__import__('gc').collect(), sum(isinstance(one, jinja2.Template) for one in "
                  "__import__('gc').get_objects())][1]");
}

/// The answer to a request, with the conversation of one user who says "hi".
template_answer ask(const python_renderer& python, const std::string& task, bool keep,
                    const std::string& source) {
  return python.answer(
      {task, keep ? "1" : "0", source, R"([{"role": "user", "content": "hi"}])", "null", "{}", "", "1"});
}

TEST(kept_templates, are_the_models_whatever_comes_with_requests) {
  const python_renderer python; // in this process, where the test can look into it
  const std::string own = "the model's: {{ messages[0].content }}";
  EXPECT_EQ(ask(python, "check", true, own).kind, "valid");
  const auto identity = "id(kept[\"" + own + "\"])";
  const auto kept = evaluate("len(kept)");
  const auto object = evaluate(identity);
  const auto living = living_templates();
  for (int i = 0; i < 100; ++i) {
    const auto sent = std::to_string(i) + ": {{ messages[0].content }}";
    EXPECT_EQ(ask(python, "render", false, sent).text, std::to_string(i) + ": hi");
    EXPECT_EQ(ask(python, "render", false, sent + "{% for %}").kind, "template");
  }
  EXPECT_EQ(evaluate("len(kept)"), kept);
  EXPECT_EQ(evaluate(identity), object);
  EXPECT_EQ(living_templates(), living);
  EXPECT_EQ(ask(python, "render", false, own).text, "the model's: hi");
  EXPECT_EQ(ask(python, "render", true, own).text, "the model's: hi");
  EXPECT_EQ(living_templates(), living) << "what is kept is used";
  const std::string second = "another of the model's";
  EXPECT_EQ(ask(python, "render", true, second).text, second);
  EXPECT_EQ(evaluate("len(kept)"), kept + 1) << "a process that never checked it keeps it, too";
}

} // namespace

} // namespace troupe::text
