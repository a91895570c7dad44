/* Events as Kineto usually writes them, from JSON text into columns of numbers.
 *
 * Which fields of which category become which columns is said in Python (scanned.py). Distinct texts
 * are kept once and stand in the columns as codes. Whatever is not strictly as expected (broken JSON,
 * another category, a quoted number, a key twice) ends what scan() takes: the caller decodes those
 * bytes another way. So nothing here repairs, guesses or converts.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "scan/events.h"

typedef struct {
    PyObject_HEAD
    Scan scan;
} Scanner;

static Scan *scan_of(PyObject *self)
{
    return &((Scanner *)self)->scan;
}

static void free_scanner(PyObject *self)
{
    free_scan(scan_of(self));
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static char *copied(PyObject *text, size_t *size)
{
    Py_ssize_t length;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &length);
    if (!utf8)
        return NULL;
    char *copy = malloc((size_t)length + 1);
    if (!copy) {
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(copy, utf8, (size_t)length + 1);
    *size = (size_t)length;
    return copy;
}

/* The field of a key: of the event itself, or, behind "args.", of its arguments. */
static int field_named(Layout *layout, PyObject *name)
{
    size_t size;
    char *key = copied(name, &size);
    if (!key)
        return -1;
    if (strncmp(key, "args.", 5)) {
        int field = field_of((Slice){(Place)key, size});
        free(key);
        if (field < 0 || field >= ARGUMENTS)
            PyErr_SetString(PyExc_ValueError, "no such field of an event");
        return field < ARGUMENTS ? field : -1;
    }
    size -= 5;
    memmove(key, key + 5, size + 1);
    for (int i = ARGUMENTS; i < layout->field_count; i++) {
        if (size == layout->key_sizes[i] && !memcmp(key, layout->keys[i], size)) {
            free(key);
            return i;
        }
    }
    if (layout->field_count == MOST_FIELDS) {
        free(key);
        PyErr_SetString(PyExc_ValueError, "too many fields");
        return -1;
    }
    layout->keys[layout->field_count] = key;
    layout->key_sizes[layout->field_count] = size;
    layout->key_lengths |= UINT64_C(1) << (size & 63);
    return layout->field_count++;
}

static int set_column(Layout *layout, PyObject *given)
{
    int kind;
    long long absent;
    PyObject *names;
    if (!PyArg_ParseTuple(given, "iLO!", &kind, &absent, &PyTuple_Type, &names))
        return 0;
    Py_ssize_t width = PyTuple_Size(names);
    if (kind < TIME || kind > CODE || width < 1 || width > MOST_FIELDS ||
        (kind != CODE && width != 1)) {
        PyErr_SetString(PyExc_ValueError, "no such column");
        return 0;
    }
    Column *column = &layout->columns[layout->column_count];
    memset(column, 0, sizeof *column);
    column->fields = calloc((size_t)width, sizeof(int));
    if (!column->fields) {
        PyErr_NoMemory();
        return 0;
    }
    layout->column_count++;
    column->kind = (Kind)kind;
    column->absent = absent;
    column->width = (int)width;
    for (int i = 0; i < width; i++)
        if ((column->fields[i] = field_named(layout, PyTuple_GetItem(names, i))) < 0)
            return 0;
    return 1;
}

static int set_layout(Scan *scan, PyObject *given)
{
    PyObject *category, *columns;
    if (!PyArg_ParseTuple(given, "UO!", &category, &PyTuple_Type, &columns))
        return 0;
    Layout *layout = &scan->layouts[scan->layout_count++];
    layout->field_count = ARGUMENTS;
    layout->category = (uint8_t *)copied(category, &layout->category_size);
    size_t count = (size_t)PyTuple_Size(columns);
    if (!layout->category || !(layout->columns = calloc(count + 1, sizeof(Column))))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!set_column(layout, PyTuple_GetItem(columns, (Py_ssize_t)i)))
            return 0;
    return 1;
}

static PyObject *new_scanner(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *layouts;
    if (named && PyDict_Size(named)) {
        PyErr_SetString(PyExc_TypeError, "Scanner takes no named arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &layouts))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = allocate(type, 0);
    if (!self)
        return NULL;
    Scan *scan = scan_of(self);
    Py_ssize_t count = PyTuple_Size(layouts);
    scan->layouts = calloc((size_t)count + 1, sizeof(Layout));
    int done = scan->layouts && code_of(&scan->texts, (Place) "", 0) == NOT_GIVEN;
    for (Py_ssize_t i = 0; done && i < count; i++)
        done = set_layout(scan, PyTuple_GetItem(layouts, i));
    if (!done) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        Py_DECREF(self);
        return NULL;
    }
    return self;
}

static PyObject *take_usual(PyObject *self, PyObject *args)
{
    Scan *scan = scan_of(self);
    PyObject *given;
    Py_ssize_t start, end;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "Onn", &given, &start, &end) ||
        PyObject_GetBuffer(given, &view, PyBUF_SIMPLE))
        return NULL;
    if (start < 0 || start > end || end > view.len) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "no such part of the buffer");
        return NULL;
    }
    Place bytes = view.buf;
    scan->no_memory = 0;
    Place done = pass_events(scan, bytes + start, bytes + end);
    PyBuffer_Release(&view);
    return scan->no_memory ? PyErr_NoMemory() : PyLong_FromSsize_t(done - bytes);
}

static PyObject *columns_of(Layout *layout)
{
    PyObject *columns = PyList_New(layout->column_count);
    for (int i = 0; columns && i < layout->column_count; i++) {
        Column *column = &layout->columns[i];
        Py_ssize_t size = (Py_ssize_t)(layout->rows * item_size(column->kind));
        PyObject *values = PyBytes_FromStringAndSize(column->values, size);
        if (!values || PyList_SetItem(columns, i, values))
            Py_CLEAR(columns);
    }
    return columns;
}

static PyObject *take_rows(PyObject *self, PyObject *Py_UNUSED(none))
{
    Scan *scan = scan_of(self);
    PyObject *found = PyList_New(0);
    for (int i = 0; found && i < scan->layout_count; i++) {
        Layout *layout = &scan->layouts[i];
        if (!layout->rows)
            continue;
        PyObject *columns = columns_of(layout);
        PyObject *one =
            columns ? Py_BuildValue("(inN)", i, (Py_ssize_t)layout->rows, columns) : NULL;
        if (!one || PyList_Append(found, one))
            Py_CLEAR(found);
        Py_XDECREF(one);
    }
    for (int i = 0; found && i < scan->layout_count; i++)
        scan->layouts[i].rows = 0;
    return found;
}

static PyObject *text_at(const Keys *keys, size_t code)
{
    size_t start = code ? keys->ends[code - 1] : 0;
    return PyBytes_FromStringAndSize((char *)keys->bytes + start,
                                     (Py_ssize_t)(keys->ends[code] - start));
}

static PyObject *texts_of(PyObject *self, PyObject *args)
{
    Scan *scan = scan_of(self);
    int layout, column;
    Py_ssize_t code;
    if (!PyArg_ParseTuple(args, "iin", &layout, &column, &code))
        return NULL;
    if (layout < 0 || layout >= scan->layout_count || column < 0 ||
        column >= scan->layouts[layout].column_count || code < 0 ||
        (size_t)code >= scan->layouts[layout].columns[column].combinations.count) {
        PyErr_SetString(PyExc_IndexError, "no such code");
        return NULL;
    }
    const Column *of = &scan->layouts[layout].columns[column];
    Place codes = of->combinations.bytes + (size_t)code * of->width * sizeof(int32_t);
    PyObject *found = PyTuple_New(of->width);
    for (int i = 0; found && i < of->width; i++) {
        int32_t one;
        memcpy(&one, codes + i * sizeof one, sizeof one);
        PyObject *text = text_at(&scan->texts, (size_t)one);
        if (!text || PyTuple_SetItem(found, i, text))
            Py_CLEAR(found);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"scan", take_usual, METH_VARARGS,
     "scan(buffer, start, end): take the events in these bytes, separated by commas, up to the first\n"
     "about which anything is not as usual; the place behind the last one taken."},
    {"take", take_rows, METH_NOARGS,
     "The rows since the last call: for each layout that has any its number, how many, and the\n"
     "columns as bytes (8-byte numbers, 4-byte codes)."},
    {"texts", texts_of, METH_VARARGS,
     "texts(layout, column, code): the JSON texts that a code stands for, empty where not given."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Scanner(layouts): each a category and its columns (kind, absent, fields)."},
    {Py_tp_new, new_scanner},
    {Py_tp_dealloc, free_scanner},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "traceroof.parsers.torch._scan.Scanner",
    .basicsize = sizeof(Scanner),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static int fill_module(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec);
    if (!type || PyModule_AddObjectRef(module, "Scanner", type)) {
        Py_XDECREF(type);
        return -1;
    }
    Py_DECREF(type);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_scan",
    .m_doc = "Usual events of torch.profiler traces as columns.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__scan(void)
{
    return PyModuleDef_Init(&definition);
}
