/* The largest network that is no classifier as an ONNX file and back; see onnx_task_trips.h. */
#include "onnx_task_trips.h"

static const task_trip largest = {
    "bert-base", {"data", "synthetic", "length", "16", "batch", "1", NULL}, false};

int main(void) {
    files_begin();
    check_task_trip(&largest);
    files_end();
    return checks_finish();
}
