// What stands before a launcher, where a C compiler was at hand: what Stand._in_python of launch.py
// does for a launch like the last one, without a frame of Python's. Everything that is not like the
// last one goes to ``slow``, which is Python. Whether tensors are like others, a Layout says, which
// asks torch through the plain C interface that AOTInductor's libraries use.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

// -- tensors --------------------------------------------------------------------------------------

// torch/csrc/inductor/aoti_torch/c/shim.h; each takes an at::Tensor's address and returns 0 if it
// could be told. What cannot be told is also written to stderr: hence the dispatch keys first.
static struct {
    int32_t (*dim)(void *, int64_t *), (*sizes)(void *, int64_t **), (*strides)(void *, int64_t **),
        (*dtype)(void *, int32_t *), (*device)(void *, int32_t *), (*address)(void *, void **);
    // Offsets in bytes: of the at::Tensor in a tensor of Python's, of the keys in what it points to.
    Py_ssize_t tensor, keys;
    PyObject *plain[2];  // Tensor and Parameter; null until ``use_torch``
} torch;

typedef struct {
    uint64_t keys;  // the dispatch keys: device, whether dense, conjugated, wrapped by a transform …
    int32_t dtype, device;
    int64_t dim, *sizes, *strides;
    uintptr_t address;
} Tensor;

// The at::Tensor of a tensor of exactly these two types, and its keys; null if it is none.
static void *tensor_of(PyObject *object, uint64_t *keys)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    if (torch.plain[0] == NULL || (type != torch.plain[0] && type != torch.plain[1]))
        return NULL;
    char *tensor = (char *)object + torch.tensor, *impl;
    memcpy(&impl, tensor, sizeof impl);
    if (impl == NULL)
        return NULL;
    memcpy(keys, impl + torch.keys, sizeof *keys);
    return tensor;
}

// All that is compared, with sizes and strides where torch has them: 1 if it could be told.
static int described(PyObject *object, Tensor *as)
{
    void *tensor = tensor_of(object, &as->keys), *address;
    if (tensor == NULL || torch.dtype(tensor, &as->dtype) || torch.device(tensor, &as->device)
        || torch.dim(tensor, &as->dim) || torch.sizes(tensor, &as->sizes)
        || torch.strides(tensor, &as->strides) || torch.address(tensor, &address))
        return 0;
    as->address = (uintptr_t)address;
    return 1;
}

typedef struct {
    Tensor as;       // its sizes and strides are its own, its address what the mask leaves
    uintptr_t mask;  // the bits of the address that count
} Expected;

typedef struct {
    PyObject_VAR_HEAD
    vectorcallfunc vectorcall;
    Expected each[1];
} Layout;

static PyTypeObject *layout_type;

static int is_as(PyObject *object, const Expected *expected)
{
    const Tensor *as = &expected->as;
    uint64_t keys;
    int32_t number;
    int64_t dim, *list;
    void *tensor = tensor_of(object, &keys), *address;
    size_t bytes = (size_t)as->dim * sizeof(int64_t);
    return tensor != NULL && keys == as->keys
        && !torch.dtype(tensor, &number) && number == as->dtype
        && !torch.device(tensor, &number) && number == as->device
        && !torch.dim(tensor, &dim) && dim == as->dim
        && !torch.sizes(tensor, &list) && !memcmp(list, as->sizes, bytes)
        && !torch.strides(tensor, &list) && !memcmp(list, as->strides, bytes)
        && !torch.address(tensor, &address)
        && ((uintptr_t)address & expected->mask) == as->address;
}

static PyObject *layout_call(PyObject *object, PyObject *const *args, size_t flags, PyObject *names)
{
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    int alike = names == NULL && count == Py_SIZE(object);
    for (Py_ssize_t i = 0; alike && i < count; i++)
        alike = is_as(args[i], &((Layout *)object)->each[i]);
    return PyBool_FromLong(alike);
}

static void layout_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) {
        PyMem_Free(((Layout *)object)->each[i].as.sizes);
        PyMem_Free(((Layout *)object)->each[i].as.strides);
    }
    type->tp_free(object);
    Py_DECREF(type);
}

static int64_t *copy_of(const int64_t *list, int64_t count)
{
    int64_t *copy = PyMem_Malloc((size_t)(count + 1) * sizeof *copy);
    return copy == NULL ? NULL : memcpy(copy, list, (size_t)count * sizeof *copy);
}

static PyObject *layout_new(PyTypeObject *type, PyObject *args, PyObject *given)
{
    PyObject *tensors, *masks;
    (void)given;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &tensors, &PyTuple_Type, &masks))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(tensors);
    if (PyTuple_GET_SIZE(masks) != count)
        return PyErr_Format(PyExc_ValueError, "not a mask a tensor");
    Layout *self = (Layout *)type->tp_alloc(type, count);
    if (self == NULL)
        return NULL;
    self->vectorcall = layout_call;
    for (Py_ssize_t i = 0; i < count; i++) {
        Expected *one = &self->each[i];
        Tensor as;
        one->mask = PyLong_AsSize_t(PyTuple_GET_ITEM(masks, i));
        if (PyErr_Occurred() || !described(PyTuple_GET_ITEM(tensors, i), &as)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "not a tensor of which torch tells all");
            Py_DECREF(self);
            return NULL;
        }
        as.address &= one->mask;
        as.sizes = copy_of(as.sizes, as.dim);
        as.strides = copy_of(as.strides, as.dim);
        one->as = as;
        if (as.sizes == NULL || as.strides == NULL) {
            Py_DECREF(self);
            return PyErr_NoMemory();
        }
    }
    return (PyObject *)self;
}

static PyMemberDef layout_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Layout, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot layout_slots[] = {
    {Py_tp_new, layout_new},
    {Py_tp_dealloc, layout_dealloc},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, layout_members},
    {0, NULL},
};

static PyType_Spec layout_spec = {
    "ptxview_launch.Layout", offsetof(Layout, each), sizeof(Expected),
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, layout_slots,
};

static PyObject *use_torch(PyObject *module, PyObject *args)
{
    PyObject *tensor, *parameter;
    Py_ssize_t tensor_at, keys_at;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOnn", &tensor, &parameter, &tensor_at, &keys_at))
        return NULL;
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    const struct { const char *name; void *place; } wanted[] = {
        {"aoti_torch_get_dim", &torch.dim},         {"aoti_torch_get_sizes", &torch.sizes},
        {"aoti_torch_get_strides", &torch.strides}, {"aoti_torch_get_dtype", &torch.dtype},
        {"aoti_torch_get_device_index", &torch.device},
        {"aoti_torch_get_data_ptr", &torch.address},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *symbol = library == NULL ? NULL : dlsym(library, wanted[i].name);
        if (symbol == NULL)
            return PyErr_Format(PyExc_OSError, "torch has no %s", wanted[i].name);
        memcpy(wanted[i].place, &symbol, sizeof symbol);
    }
    torch.tensor = tensor_at;
    torch.keys = keys_at;
    torch.plain[1] = Py_NewRef(parameter);
    torch.plain[0] = Py_NewRef(tensor);
    Py_RETURN_NONE;
}

static PyObject *numbers(const int64_t *list, int64_t count)
{
    PyObject *made = PyTuple_New((Py_ssize_t)count);
    for (int64_t i = 0; made != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(list[i]);
        if (number == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, (Py_ssize_t)i, number);
    }
    return made;
}

static PyObject *describe(PyObject *module, PyObject *object)
{
    Tensor as;
    (void)module;
    if (!described(object, &as))
        return PyErr_Format(PyExc_ValueError, "not a tensor of which torch tells all");
    return Py_BuildValue("KiiNNK", (unsigned long long)as.keys, (int)as.dtype, (int)as.device,
                         numbers(as.sizes, as.dim), numbers(as.strides, as.dim),
                         (unsigned long long)as.address);
}

// -- launches -------------------------------------------------------------------------------------

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;  // null if the launcher has none, and takes its arguments in a tuple
    PyObject *inner, *stand, *slow, *due, *tuning, *graph;  // never null once made
    int skips;        // only graphs launch it
    PyObject *kinds;  // bytes, one an argument; null at first
    PyObject *last;   // (key, layout, entry); null where none
} Launch;

// What an argument is: compiled in or of no account; a value to be compared; a tensor.
enum { IGNORED = 0, VALUE = 1, TENSOR = 2 };

// Whether what was raised, if anything, is ours to pass over: Ctrl-C is the program's.
static int forgiven(void)
{
    if (!PyErr_Occurred())
        return 1;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return 0;
    PyErr_Clear();
    return 1;
}

// Whether two values are of one type and equal: a bool is no int here. -1 with an exception.
static int same(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    return Py_TYPE(a) == Py_TYPE(b) ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
}

// Whether these arguments are as in the last call: 1, 0, or -1 with an exception.
static int like_last(PyObject *const *args, const char *kinds, Py_ssize_t count, PyObject *last)
{
    PyObject *key = PyTuple_GET_ITEM(last, 0);
    Layout *layout = (Layout *)PyTuple_GET_ITEM(last, 1);
    Py_ssize_t values = 0, tensors = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (kinds[i] == TENSOR) {
            if (tensors >= Py_SIZE(layout) || !is_as(args[i], &layout->each[tensors++]))
                return 0;
        } else if (kinds[i] == VALUE) {
            if (values >= PyTuple_GET_SIZE(key))
                return 0;
            int equal = same(args[i], PyTuple_GET_ITEM(key, values++));
            if (equal != 1)
                return equal;
        }
    }
    return 1;
}

// An item of a list of ints; -1 where it is none.
static long long item(PyObject *list, Py_ssize_t at)
{
    if (!PyList_CheckExact(list) || at >= PyList_GET_SIZE(list))
        return -1;
    int over = 0;
    PyObject *held = PyList_GET_ITEM(list, at);
    return PyLong_CheckExact(held) ? PyLong_AsLongLongAndOverflow(held, &over) : -1;
}

// Whether a list like subjects.graph names this thread at that place.
static int here(PyObject *graph, Py_ssize_t at)
{
    long long thread = item(graph, at);
    return thread > 0 && (unsigned long)thread == PyThread_get_thread_ident();
}

static PyObject *packed(PyObject *const *args, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t i = 0; made != NULL && i < count; i++)
        PyTuple_SET_ITEM(made, i, Py_NewRef(args[i]));
    return made;
}

// Count a launch, and call ``due`` where that is to be looked at. Nothing of ours is raised here: the
// launch has been made.
static int counted(Launch *self, PyObject *entry, PyObject *const *args, Py_ssize_t count)
{
    long long made = item(entry, 0), until = item(entry, 1);
    if (made < 0)
        return 1;
    PyObject *number = PyLong_FromLongLong(made + 1);
    if (number != NULL)
        PyList_SetItem(entry, 0, number);
    if (self->skips && here(self->graph, 1)) {
        PyObject *log = PyList_GET_ITEM(self->graph, 2);
        if (PyList_CheckExact(log))
            PyList_Append(log, entry);
    }
    if (made + 1 >= until) {
        PyObject *all = packed(args, count);
        PyObject *said = all == NULL ? NULL
            : PyObject_CallFunctionObjArgs(self->due, entry, all, NULL);
        Py_XDECREF(all);
        Py_XDECREF(said);
    }
    return forgiven();
}

// The arguments as they came: one after another, or in a tuple (``all``, null if in none).
static PyObject *passed_on(
    Launch *self, PyObject *const *args, Py_ssize_t count, PyObject *all)
{
    PyObject *inner = Py_NewRef(self->inner);
    PyObject *result = all == NULL ? PyObject_Vectorcall(inner, args, (size_t)count, NULL)
                                   : PyObject_Call(inner, all, NULL);
    Py_DECREF(inner);
    return result;
}

static PyObject *slowly(
    Launch *self, PyObject *const *args, Py_ssize_t count, PyObject *all, PyObject *given)
{
    PyObject *tuple = all == NULL ? packed(args, count) : Py_NewRef(all);
    PyObject *result = tuple == NULL ? NULL
        : PyObject_CallFunctionObjArgs(self->slow, tuple, given, NULL);
    Py_XDECREF(tuple);
    return result;
}

// Whether this launch is one that a graph's call has counted: noted, and only to be passed on.
static int skipped(Launch *self)
{
    if (!self->skips || !here(self->graph, 0))
        return 0;
    PyObject *number = PyLong_FromLongLong(item(self->graph, 3) + 1);
    if (number == NULL || PyList_SetItem(self->graph, 3, number) < 0)
        PyErr_Clear();
    return 1;
}

static PyObject *launch(Launch *self, PyObject *const *args, Py_ssize_t count, PyObject *all)
{
    PyObject *last = self->last, *result;
    if (skipped(self))
        return passed_on(self, args, count, all);
    if (last == NULL || count != PyBytes_GET_SIZE(self->kinds) || item(self->tuning, 0) != 0)
        return slowly(self, args, count, all, NULL);
    Py_INCREF(last);  // another thread may replace it
    int equal = like_last(args, PyBytes_AS_STRING(self->kinds), count, last);
    if (equal != 1) {
        result = forgiven() ? slowly(self, args, count, all, NULL) : NULL;
    } else {
        result = passed_on(self, args, count, all);
        if (result != NULL && !counted(self, PyTuple_GET_ITEM(last, 2), args, count))
            Py_CLEAR(result);
    }
    Py_DECREF(last);
    return result;
}

static PyObject *called_with_tuple(PyObject *object, PyObject *all, PyObject *given)
{
    Launch *self = (Launch *)object;
    if (given == NULL || PyDict_GET_SIZE(given) == 0)
        return launch(self, ((PyTupleObject *)all)->ob_item, PyTuple_GET_SIZE(all), all);
    if (skipped(self))
        return PyObject_Call(self->inner, all, given);
    return slowly(self, NULL, 0, all, given);
}

static PyObject *called(PyObject *object, PyObject *const *args, size_t flags, PyObject *names)
{
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (names == NULL || PyTuple_GET_SIZE(names) == 0)
        return launch((Launch *)object, args, count, NULL);
    PyObject *all = packed(args, count), *given = PyDict_New(), *result = NULL;
    int failed = all == NULL || given == NULL;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(names); i++)
        failed = PyDict_SetItem(given, PyTuple_GET_ITEM(names, i), args[count + i]) < 0;
    if (!failed)
        result = called_with_tuple(object, all, given);
    Py_XDECREF(all);
    Py_XDECREF(given);
    return result;
}

static PyObject *made(PyTypeObject *type, PyObject *args, PyObject *given)
{
    PyObject *inner, *stand, *slow, *due, *tuning, *graph;
    int skips;
    (void)given;
    if (!PyArg_ParseTuple(args, "OOOOO!O!p", &inner, &stand, &slow, &due, &PyList_Type, &tuning,
                          &PyList_Type, &graph, &skips))
        return NULL;
    Launch *self = (Launch *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = PyVectorcall_Function(inner) == NULL ? NULL : called;
    self->inner = Py_NewRef(inner);
    self->stand = Py_NewRef(stand);
    self->slow = Py_NewRef(slow);
    self->due = Py_NewRef(due);
    self->tuning = Py_NewRef(tuning);
    self->graph = Py_NewRef(graph);
    self->skips = skips;
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Launch *self = (Launch *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->inner);
    Py_VISIT(self->stand);
    Py_VISIT(self->slow);
    Py_VISIT(self->due);
    Py_VISIT(self->tuning);
    Py_VISIT(self->graph);
    Py_VISIT(self->last);
    return 0;
}

static int clear(PyObject *object)
{
    // What a call needs stays until the end: whoever is in a cycle with this may still call it.
    Launch *self = (Launch *)object;
    Py_CLEAR(self->last);
    return 0;
}

static void dealloc(PyObject *object)
{
    Launch *self = (Launch *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->inner);
    Py_XDECREF(self->stand);
    Py_XDECREF(self->slow);
    Py_XDECREF(self->due);
    Py_XDECREF(self->tuning);
    Py_XDECREF(self->graph);
    Py_XDECREF(self->kinds);
    Py_XDECREF(self->last);
    type->tp_free(object);
    Py_DECREF(type);
}

// In all but being called it is the launcher.
static PyObject *attribute(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(object, name);
    if (found != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    return PyObject_GetAttr(((Launch *)object)->inner, name);
}

static PyObject *compare(PyObject *object, PyObject *args)
{
    Launch *self = (Launch *)object;
    PyObject *kinds, *last;
    if (!PyArg_ParseTuple(args, "SO", &kinds, &last))
        return NULL;
    if (last != Py_None
        && (!PyTuple_CheckExact(last) || PyTuple_GET_SIZE(last) != 3
            || !PyTuple_CheckExact(PyTuple_GET_ITEM(last, 0))
            || !Py_IS_TYPE(PyTuple_GET_ITEM(last, 1), layout_type))) {
        PyErr_SetString(PyExc_TypeError, "not (key, layout, entry)");
        return NULL;
    }
    if (self->kinds == NULL)
        self->kinds = Py_NewRef(kinds);  // for good: another thread may be reading it
    PyObject *before = self->last;
    self->last = last == Py_None ? NULL : Py_NewRef(last);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *reduce(PyObject *object, PyObject *protocol)
{
    // Inductor keeps kernels in its cache: what it keeps is what it would keep without us.
    (void)protocol;
    PyObject *module = PyImport_ImportModule("operator");
    PyObject *getitem = module == NULL ? NULL : PyObject_GetAttrString(module, "getitem");
    Py_XDECREF(module);
    if (getitem == NULL)
        return NULL;
    return Py_BuildValue("N((O)i)", getitem, ((Launch *)object)->inner, 0);
}

static PyMethodDef methods[] = {
    {"_ptxview_compare", compare, METH_VARARGS,
     "Compare the next launch with this (key, layout, entry), or with none."},
    {"__reduce_ex__", reduce, METH_O, "As the launcher."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"_ptxview", T_OBJECT_EX, offsetof(Launch, stand), READONLY, "What counts the launches."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launch, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, made},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_call, called_with_tuple},
    {Py_tp_getattro, attribute},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec spec = {
    "ptxview_launch.Launch", sizeof(Launch), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots,
};

static int filled(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec), *layout = PyType_FromSpec(&layout_spec);
    int failed = type == NULL || layout == NULL
        || PyModule_AddObjectRef(module, "Launch", type) < 0
        || PyModule_AddObjectRef(module, "Layout", layout) < 0;
    Py_XDECREF(type);
    layout_type = (PyTypeObject *)layout;  // for as long as the process lives
    return failed ? -1 : 0;
}

static PyMethodDef functions[] = {
    {"use_torch", use_torch, METH_VARARGS,
     "Take Tensor, Parameter and two offsets from now on; OSError if torch lacks a function."},
    {"describe", describe, METH_O,
     "A tensor's dispatch keys, dtype, device index, sizes, strides and address."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot steps[] = {{Py_mod_exec, filled}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "ptxview_launch", NULL, 0, functions, steps, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_ptxview_launch(void)
{
    return PyModuleDef_Init(&definition);
}
