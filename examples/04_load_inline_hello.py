"""Hello from C++: a string becomes a Python module. No CUDA, no GPU, only g++ and ninja.

load_inline writes main.cpp and build.ninja into a folder, adds the pybind11 binding for every name
in `functions`, compiles, links and imports the .so. The second run finds the .so and is quick.
"""

from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <string>

std::string hello_world() {
    return "Hello World!";
}
"""

if __name__ == "__main__":
    module = load_inline(name="hello_world", cpp_sources=[SOURCE], functions=["hello_world"])
    assert module.hello_world() == "Hello World!"
    print(f"{module.hello_world()} (from {module.__file__})")
