// Bound by Python's own interface: pybind11's headers alone take a compiler three seconds to read.
#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

void run_hidden(int64_t);
void set_table(float, int);
int run_of_file(int64_t, int);
void run_plain(int64_t);
void run_by_value(int64_t, int64_t);
void run_packed(int64_t);
void run_halves(int64_t);
void run_says();
void run_adds(int64_t, int);
void run_past(int64_t, int);
int run_refused(int64_t, int, int, int);
void run_pinned(int64_t);
void run_apply(int64_t, int, int);
int run_managed(int64_t);
void run_cooperative(int64_t);
void run_paired(int64_t);
int run_limit(int);
#ifdef GUARDED
int run_guarded(int);
#endif

template <typename To> To taken(PyObject* from) {
  if constexpr (std::is_floating_point_v<To>) return static_cast<To>(PyFloat_AsDouble(from));
  else return static_cast<To>(PyLong_AsLongLong(from));
}

template <auto function> struct Bound;
template <typename Result, typename... Given, Result (*function)(Given...)>
struct Bound<function> {
  template <std::size_t... N>
  static PyObject* called(PyObject* given, std::index_sequence<N...>) {
    if constexpr (std::is_void_v<Result>) {
      function(taken<Given>(PyTuple_GET_ITEM(given, N))...);
      Py_RETURN_NONE;
    } else {
      return PyLong_FromLongLong(function(taken<Given>(PyTuple_GET_ITEM(given, N))...));
    }
  }
  static PyObject* call(PyObject*, PyObject* given) {
    if (PyTuple_GET_SIZE(given) != sizeof...(Given)) {
      PyErr_SetString(PyExc_TypeError, "it takes as many arguments as it was declared with");
      return nullptr;
    }
    try {
      return called(given, std::index_sequence_for<Given...>());
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
      return nullptr;
    }
  }
};

static PyMethodDef methods[] = {
    {"hidden", Bound<run_hidden>::call, METH_VARARGS, nullptr},
    {"set_table", Bound<set_table>::call, METH_VARARGS, nullptr},
    {"of_file", Bound<run_of_file>::call, METH_VARARGS, nullptr},
    {"plain", Bound<run_plain>::call, METH_VARARGS, nullptr},
    {"by_value", Bound<run_by_value>::call, METH_VARARGS, nullptr},
    {"packed", Bound<run_packed>::call, METH_VARARGS, nullptr},
    {"halves", Bound<run_halves>::call, METH_VARARGS, nullptr},
    {"says", Bound<run_says>::call, METH_VARARGS, nullptr},
    {"adds", Bound<run_adds>::call, METH_VARARGS, nullptr},
    {"past", Bound<run_past>::call, METH_VARARGS, nullptr},
    {"refused", Bound<run_refused>::call, METH_VARARGS, nullptr},
    {"pinned", Bound<run_pinned>::call, METH_VARARGS, nullptr},
    {"apply", Bound<run_apply>::call, METH_VARARGS, nullptr},
    {"managed", Bound<run_managed>::call, METH_VARARGS, nullptr},
    {"cooperative", Bound<run_cooperative>::call, METH_VARARGS, nullptr},
    {"paired", Bound<run_paired>::call, METH_VARARGS, nullptr},
    {"limit", Bound<run_limit>::call, METH_VARARGS, nullptr},
#ifdef GUARDED
    {"guarded", Bound<run_guarded>::call, METH_VARARGS, nullptr},
#endif
    {nullptr, nullptr, 0, nullptr},
};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "bound", nullptr, -1, methods};

#define JOINED(a, b) a##b
#define INITIAL(name) JOINED(PyInit_, name)
PyMODINIT_FUNC INITIAL(TORCH_EXTENSION_NAME)() { return PyModule_Create(&definition); }
