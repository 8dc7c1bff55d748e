/* The whole interface of quern. */
#ifndef QUERN_QUERN_H
#define QUERN_QUERN_H

#include "quern/base.h"
#include "quern/checkpoint.h"
#include "quern/data.h"
#include "quern/engine.h"
#include "quern/graph.h"
#include "quern/label.h"
#include "quern/learn.h"
#include "quern/meter.h"
#include "quern/model.h"
#include "quern/numerics.h"
#include "quern/onnx.h"
#include "quern/ops.h"
#include "quern/predictor.h"
#include "quern/task.h"
#include "quern/trainer.h"
#include "quern/training.h"
#include "quern/tuning.h"

#endif
