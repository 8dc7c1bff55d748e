/* Small classifiers of the zoo as ONNX files and back, one with its weights outside; see
 * onnx_round_trip.h. And an export that runs out of memory. */
#include "onnx_round_trip.h"

#include "failing.h"

/* Each allocation of an export fails in turn: nothing is held then, and no file is there. */
static void test_memory(void) {
    char path[] = "/tmp/quern-test-export-XXXXXX";
    failing f = {.left = 0};
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    const qn_onnx_export_options options = {QN_OPTIONS_INIT(qn_onnx_export_options),
                                            .allocator = &allocator,
                                            .model = qn_model_find("lenet5")};
    const int descriptor = mkstemp(path);
    qn_status status = QN_ERROR_MEMORY;
    int64_t n = 0;
    CHECK(descriptor >= 0 && close(descriptor) == 0 && unlink(path) == 0);
    for (; status != QN_OK && n < 1000; n++) {
        f.left = n;
        status = qn_onnx_export(&options, path);
        CHECK((status == QN_OK || status == QN_ERROR_MEMORY) && f.held_bytes == 0);
        CHECK((access(path, F_OK) == 0) == (status == QN_OK));
    }
    CHECK(status == QN_OK && n > 10);
    unlink(path);
}

int main(void) {
    static const char *const names[] = {"mlp", "lenet5", "squeezenet", "mobilenet-v2",
                                        "densenet40"};
    int n = sizeof names / sizeof *names;
#ifdef __SANITIZE_ADDRESS__
    n = 3; /* steps take many times as long */
#endif
    check_round_trips(names, n);
    check_round_trip(qn_model_find("lenet5"), true);
    check_cut_outside(qn_model_find("lenet5"));
    test_memory();
    return checks_finish();
}
