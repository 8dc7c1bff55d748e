/* The recurrence of LSTM layers: the attributes that devices need. */
#ifndef QN_OPS_NETWORK_LSTM_H
#define QN_OPS_NETWORK_LSTM_H

#include "graph/graph.h"
#include "quern/ops.h"

qn_lstm_shape qn_lstm_of(const qn_tensor *inputs);

/* Numbers of inputs and outputs. */
enum {
    QN_LSTM_IN_X,
    QN_LSTM_IN_WEIGHT,
    QN_LSTM_IN_H,
    QN_LSTM_IN_C,
    QN_LSTM_IN_LENGTHS,
    QN_LSTM_N_IN
};
enum {
    QN_LSTM_OUT_GATES,
    QN_LSTM_OUT_Y,
    QN_LSTM_OUT_H,
    QN_LSTM_OUT_C,
    QN_LSTM_OUT_CELLS,
    QN_LSTM_N_OUT
};

typedef struct qn_lstm_backward_attributes {
    bool state; /* the gradients of the state before are wanted, too */
} qn_lstm_backward_attributes;

enum {
    QN_LSTM_BACK_GATES,
    QN_LSTM_BACK_CELLS,
    QN_LSTM_BACK_WEIGHT,
    QN_LSTM_BACK_C,
    QN_LSTM_BACK_LENGTHS,
    QN_LSTM_BACK_DY,
    QN_LSTM_BACK_DH,
    QN_LSTM_BACK_DC
};

#endif
