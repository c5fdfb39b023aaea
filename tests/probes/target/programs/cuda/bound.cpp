#include <pybind11/pybind11.h>

#include <cstdint>

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
void run_pinned(int64_t);
void run_apply(int64_t, int, int);
int run_managed(int64_t);
void run_cooperative(int64_t);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("hidden", run_hidden);
  m.def("set_table", set_table);
  m.def("of_file", run_of_file);
  m.def("plain", run_plain);
  m.def("by_value", run_by_value);
  m.def("packed", run_packed);
  m.def("halves", run_halves);
  m.def("says", run_says);
  m.def("adds", run_adds);
  m.def("past", run_past);
  m.def("pinned", run_pinned);
  m.def("apply", run_apply);
  m.def("managed", run_managed);
  m.def("cooperative", run_cooperative);
}
