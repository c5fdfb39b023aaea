#include <torch/extension.h>
torch::Tensor square_matrix(torch::Tensor m);torch::Tensor gelu(torch::Tensor x);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
m.def("square_matrix", torch::wrap_pybind_function(square_matrix), "square_matrix");
m.def("gelu", torch::wrap_pybind_function(gelu), "gelu");
}