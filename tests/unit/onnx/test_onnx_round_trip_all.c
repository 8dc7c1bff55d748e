/* All classifiers of the zoo as ONNX files and back; see onnx_round_trip.h. */
#include "onnx_round_trip.h"

int main(int n_arguments, char **arguments) {
    if (n_arguments > 1) {
        check_round_trips((const char *const *)arguments + 1, n_arguments - 1);
        return checks_finish();
    }
    for (int i = 0; qn_model_at(i); i++) {
        if (qn_model_at(i)->build)
            check_round_trips(&qn_model_at(i)->name, 1);
    }
    return checks_finish();
}
