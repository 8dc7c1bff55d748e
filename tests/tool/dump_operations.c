/* Prints the operations of a training step, without running any:
 *     dump_operations MODEL [NAME=VALUE...]
 * NAME: a setting of quern train ("batch", "length"). A line for each operation of the plan: type,
 * name, pass (forward, backward, update), FLOPs, bytes. The data is synthetic. */
#include "quern/quern.h"
#include "run/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *what) {
    fprintf(stderr, "dump_operations: %s: %s\n", what, qn_error_message());
    exit(1);
}

static void set(qn_metadata *settings, char *pair) {
    char *value = strchr(pair, '=');
    if (!value)
        stop("a setting must be NAME=VALUE");
    *value = 0;
    if (qn_metadata_set(settings, pair, value + 1) != QN_OK)
        stop(pair);
}

static void print_operations(const qn_engine *engine) {
    static const char *const passes[] = {"forward", "backward", "update"};
    for (int i = 0; i < qn_engine_operation_count(engine, 0); i++) {
        const qn_operation o = qn_engine_operation_at(engine, 0, i);
        printf("%s %s %s %lld %lld\n", o.type, o.name, passes[o.pass], (long long)o.flops,
               (long long)o.bytes);
    }
}

int main(int n, char **arguments) {
    qn_metadata *settings = NULL;
    qn_task *task = NULL;
    if (n < 2 || qn_metadata_create(NULL, &settings) != QN_OK)
        stop("usage: dump_operations MODEL [NAME=VALUE...]");
    char data[] = "data=synthetic";
    set(settings, data);
    for (int i = 2; i < n; i++)
        set(settings, arguments[i]);
    const qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = qn_model_find(arguments[1]),
                                     .settings = settings, .training = true, .engine.n_threads = 1};
    if (!options.model || qn_task_open(&options, &task) != QN_OK)
        stop(arguments[1]);
    print_operations(qn_task_engine(task));
    qn_task_close(task);
    qn_metadata_destroy(settings);
    return 0;
}
