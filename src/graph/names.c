/* Names of values: scopes, unused names, and an open-addressing table with linear probing that is
 * at most half full, so that building takes linear time. */
#include "graph/names.h"

#include "base/print.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 64, MAX_SCOPES = 16 };

/* The slot that holds the name, or the empty one where it belongs. */
static size_t find_slot(const qn_graph *graph, const size_t *names, size_t capacity,
                        const char *name) {
    size_t slot = qn_hash_text(name) & (capacity - 1);
    while (names[slot] && strcmp(graph->values[names[slot] - 1]->name, name) != 0)
        slot = (slot + 1) & (capacity - 1);
    return slot;
}

static qn_status grow(qn_graph *graph) {
    const size_t capacity = graph->name_capacity ? graph->name_capacity * 2 : FIRST_CAPACITY;
    size_t *names;
    QN_TRY(qn_allocate(graph->allocator, capacity, sizeof *names, &names));
    for (size_t i = 0; i < graph->name_capacity; i++) {
        const size_t id = graph->names[i];
        if (id)
            names[find_slot(graph, names, capacity, graph->values[id - 1]->name)] = id;
    }
    qn_release(graph->allocator, graph->names, graph->name_capacity, sizeof *names);
    graph->names = names;
    graph->name_capacity = capacity;
    return QN_OK;
}

qn_status qn_graph_add_name(qn_graph *graph, qn_value value) {
    if (2 * (graph->n_names + 1) > graph->name_capacity)
        QN_TRY(grow(graph));
    const char *name = graph->values[value.id]->name;
    graph->names[find_slot(graph, graph->names, graph->name_capacity, name)] = (size_t)value.id + 1;
    graph->n_names++;
    return QN_OK;
}

qn_value qn_graph_find(const qn_graph *graph, const char *name) {
    if (graph->n_names == 0)
        return QN_NO_VALUE;
    const size_t id = graph->names[find_slot(graph, graph->names, graph->name_capacity, name)];
    return id ? (qn_value){(int32_t)(id - 1)} : QN_NO_VALUE;
}

/* Writes base and number behind the scope; whether that is free. number 0: no number. */
static bool is_free(const qn_graph *graph, const char *base, int number, char *text, size_t bytes) {
    if (number == 0)
        snprintf(text, bytes, "%s%s", graph->scope, base);
    else
        snprintf(text, bytes, "%s%s%d", graph->scope, base, number);
    return qn_graph_find(graph, text).id < 0;
}

const char *qn_graph_unique(qn_graph *graph, const char *base, bool is_numbered) {
    char text[1024];
    int number = 0, step = 1;
    if (graph->status != QN_OK)
        return NULL;
    if (is_numbered || !is_free(graph, base, 0, text, sizeof text)) {
        /* Numbers are given without gaps: doubling, then halving, finds the first free one. */
        number = 1;
        while (!is_free(graph, base, number + step - 1, text, sizeof text))
            step *= 2;
        for (number += step - 1; step > 0; step /= 2) {
            if (number - step > 0 && is_free(graph, base, number - step, text, sizeof text))
                number -= step;
        }
        is_free(graph, base, number, text, sizeof text);
    }
    const char *name = qn_arena_text(&graph->arena, text + strlen(graph->scope));
    if (!name)
        qn_graph_fail(graph, QN_ERROR_MEMORY, "graph: %s", qn_error_message());
    return name;
}

/* Appends "text." to a scope's text of a graph; false: it has no room. */
static bool append(char *scope, size_t bytes, const char *text) {
    const size_t used = strlen(scope);
    if (used + strlen(text) + 2 > bytes)
        return false;
    snprintf(scope + used, bytes - used, "%s.", text);
    return true;
}

static void open_scope(qn_graph *graph, bool is_call, const char *format, va_list arguments) {
    char text[sizeof graph->scope];
    if (graph->status != QN_OK)
        return;
    if (graph->depth == MAX_SCOPES) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "graph: more than %d scopes in \"%s\"", MAX_SCOPES,
                      graph->scope);
        return;
    }
    qn_scope *scope = &graph->scopes[graph->depth];
    *scope = (qn_scope){strlen(graph->scope), strlen(graph->parameter_scope), is_call};
    const int length = qn_print_list(text, sizeof text, format, arguments);
    if (length < 0 || (size_t)length >= sizeof text ||
        !append(graph->scope, sizeof graph->scope, text)) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "graph: the names of scopes under \"%s\" are long",
                      graph->scope);
        return;
    }
    if (!is_call) /* as long as the other at most, so it has room */
        append(graph->parameter_scope, sizeof graph->parameter_scope, text);
    graph->depth++;
    graph->n_calls += is_call;
}

void qn_graph_enter(qn_graph *graph, const char *format, ...) {
    QN_NEED_OR(graph, "graph", );
    QN_NEED_OR(format, "format", );
    va_list arguments;
    va_start(arguments, format);
    open_scope(graph, false, format, arguments);
    va_end(arguments);
}

void qn_graph_call(qn_graph *graph, const char *format, ...) {
    QN_NEED_OR(graph, "graph", );
    QN_NEED_OR(format, "format", );
    va_list arguments;
    va_start(arguments, format);
    open_scope(graph, true, format, arguments);
    va_end(arguments);
}

void qn_graph_leave(qn_graph *graph) {
    QN_NEED_OR(graph, "graph", );
    if (graph->status != QN_OK)
        return;
    if (graph->depth == 0) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "graph: a scope was left that was not entered");
        return;
    }
    const qn_scope *scope = &graph->scopes[--graph->depth];
    graph->scope[scope->scope_end] = 0;
    graph->parameter_scope[scope->parameter_end] = 0;
    graph->n_calls -= scope->is_call;
}
