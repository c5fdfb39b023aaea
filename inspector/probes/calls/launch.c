// The object that stands before a launcher, where a C compiler was at hand: what Stand._in_python of
// launch.py does for a launch like the last one, without a frame of Python's. Everything
// that is not like the last one goes to ``slow``, which is Python.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *inner, *stand, *slow, *due, *which, *tuning, *graph;  // never null once made
    int skips;        // only graphs launch it
    PyObject *kinds;  // bytes, one an argument; null at first
    PyObject *last;   // (key, check, entry or None, known); null where none
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
    Py_ssize_t values = 0, tensors = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (kinds[i] == TENSOR)
            tensors++;
        else if (kinds[i] == VALUE) {
            if (values >= PyTuple_GET_SIZE(key))
                return 0;
            int equal = same(args[i], PyTuple_GET_ITEM(key, values++));
            if (equal != 1)
                return equal;
        }
    }
    PyObject *given = PyTuple_New(tensors);
    if (given == NULL)
        return -1;
    for (Py_ssize_t i = count, at = tensors; at > 0;)
        if (kinds[--i] == TENSOR)
            PyTuple_SET_ITEM(given, --at, Py_NewRef(args[i]));
    PyObject *said = PyObject_Call(PyTuple_GET_ITEM(last, 1), given, NULL);
    Py_DECREF(given);
    if (said == NULL)
        return -1;
    int equal = said == Py_True;
    Py_DECREF(said);
    return equal;
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

static PyObject *slowly(Launch *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *all = packed(args, count), *given = NULL, *result = NULL;
    if (all == NULL)
        return NULL;
    if (names != NULL && PyTuple_GET_SIZE(names) > 0) {
        given = PyDict_New();
        for (Py_ssize_t i = 0; given != NULL && i < PyTuple_GET_SIZE(names); i++)
            if (PyDict_SetItem(given, PyTuple_GET_ITEM(names, i), args[count + i]) < 0)
                Py_CLEAR(given);
        if (given == NULL) {
            Py_DECREF(all);
            return NULL;
        }
    }
    result = PyObject_CallFunctionObjArgs(self->slow, all, given, NULL);
    Py_DECREF(all);
    Py_XDECREF(given);
    return result;
}

// Count a launch, and call ``due`` where that is to be looked at. Nothing of ours is raised here: the
// launch has been made.
static int counted(
    Launch *self, PyObject *entry, PyObject *known, PyObject *const *args, Py_ssize_t count)
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
            : PyObject_CallFunctionObjArgs(self->due, entry, known, all, NULL);
        Py_XDECREF(all);
        Py_XDECREF(said);
    }
    return forgiven();
}

static PyObject *launch(PyObject *object, PyObject *const *args, size_t flags, PyObject *names)
{
    Launch *self = (Launch *)object;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    PyObject *last = self->last;
    if (self->skips && here(self->graph, 0)) {
        PyObject *number = PyLong_FromLongLong(item(self->graph, 3) + 1);
        if (number == NULL || PyList_SetItem(self->graph, 3, number) < 0)
            PyErr_Clear();
        return PyObject_Vectorcall(self->inner, args, (size_t)count, names);
    }
    if (last == NULL || names != NULL || count != PyBytes_GET_SIZE(self->kinds)
        || item(self->tuning, 0) != 0)
        return slowly(self, args, count, names);
    Py_INCREF(last);  // another thread may replace it
    int equal = like_last(args, PyBytes_AS_STRING(self->kinds), count, last);
    PyObject *entry = NULL, *known = PyTuple_GET_ITEM(last, 3), *result;
    if (equal == 1) {
        entry = Py_NewRef(PyTuple_GET_ITEM(last, 2));
        if (entry == Py_None) {  // only addresses tell calls apart
            PyObject *all = packed(args, count);
            Py_SETREF(entry, all == NULL ? NULL
                : PyObject_CallFunctionObjArgs(self->which, known, all, NULL));
            Py_XDECREF(all);
        }
    }
    if (entry == NULL || entry == Py_None) {
        result = forgiven() ? slowly(self, args, count, names) : NULL;
    } else {
        PyObject *inner = Py_NewRef(self->inner);
        result = PyObject_Vectorcall(inner, args, (size_t)count, NULL);
        Py_DECREF(inner);
        if (result != NULL && !counted(self, entry, known, args, count))
            Py_CLEAR(result);
    }
    Py_XDECREF(entry);
    Py_DECREF(last);
    return result;
}

static PyObject *made(PyTypeObject *type, PyObject *args, PyObject *given)
{
    PyObject *inner, *stand, *slow, *due, *which, *tuning, *graph;
    int skips;
    (void)given;
    if (!PyArg_ParseTuple(args, "OOOOOO!O!p", &inner, &stand, &slow, &due, &which, &PyList_Type,
                          &tuning, &PyList_Type, &graph, &skips))
        return NULL;
    Launch *self = (Launch *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = launch;
    self->inner = Py_NewRef(inner);
    self->stand = Py_NewRef(stand);
    self->slow = Py_NewRef(slow);
    self->due = Py_NewRef(due);
    self->which = Py_NewRef(which);
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
    Py_VISIT(self->which);
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
    Py_XDECREF(self->which);
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
        && (!PyTuple_CheckExact(last) || PyTuple_GET_SIZE(last) != 4
            || !PyTuple_CheckExact(PyTuple_GET_ITEM(last, 0)))) {
        PyErr_SetString(PyExc_TypeError, "not (key, check, entry, known)");
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
     "Compare the next launch with this (key, check, entry, known), or with none."},
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
    {Py_tp_call, PyVectorcall_Call},
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
    PyObject *type = PyType_FromSpec(&spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, "Launch", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot steps[] = {{Py_mod_exec, filled}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "ptxview_launch", NULL, 0, NULL, steps, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_ptxview_launch(void)
{
    return PyModuleDef_Init(&definition);
}
