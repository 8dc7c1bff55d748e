/* Networks of every task but classification as ONNX files and back; see onnx_task_trips.h. */
#include "onnx_task_trips.h"

static const task_trip trips[] = {
    {"char-lstm",
     {"data", "text:@/text", "holdout", "0.2", "length", "4", "hidden", "12", "batch", "3", NULL},
     true},
    {"char-cnn",
     {"data", "text:@/text", "holdout", "0.2", "length", "5", "hidden", "8", "batch", "2", NULL},
     true},
    {"seq2seq",
     {"data", "pairs:@/text,@/text", "holdout", "0.2", "length", "6", "hidden", "12", "batch", "2",
      NULL},
     true},
    {"bert-tiny", {"data", "synthetic", "length", "32", "batch", "4", NULL}, false},
    {"dcgan", {"data", "synthetic", "batch", "4", NULL}, false},
    {"dqn",
     {"data", "cartpole", "net", "mlp", "batch", "8", "fill", "64", "target-every", "2", "explore",
      "100", NULL},
     false},
    {"dqn", {"data", "synthetic", "batch", "2", NULL}, false},
};

int main(void) {
    int n = sizeof trips / sizeof *trips;
    files_begin();
    write_text("@/text", "a b\nb c\nc\na a b\nb\nc a b\na\nb c b\na b\nc\nb b b\na\nb c\nc c\nb a\n"
                         "a b c\nb\nc a\nb b\na\nc\nb a\na\nb\n");
    for (int i = 0; i < n; i++)
        check_task_trip(&trips[i]);
    files_end();
    return checks_finish();
}
