"""The C library by ctypes: its structures and functions as include/quern declares them, and its
failures as exceptions. ctypes lets go of the interpreter's lock for every call. Nothing here knows
what a model is. tests/python/test_layout.py compares every structure with the headers."""
from __future__ import annotations

import ctypes
import logging
import os
import pathlib
import re
import sys
import warnings
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_int32, c_int64, c_size_t, c_uint64, c_void_p)
from typing import Any

# ---- errors ----


class Error(Exception):
    """What quern's library refused or could not do, in its words: what happened, where, and what to
    do about it. Every failure of this package that is no wrong call is one."""


class ArgumentError(Error, ValueError):
    """A value that was given is not acceptable."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed, or a memory budget is too small; the message names the least that works."""


class FileError(Error, OSError):
    """The operating system refused a file operation."""


class FormatError(Error, ValueError):
    """A file, or data, is not what its format demands; the message names the place."""


class NumericError(Error, ArithmeticError):
    """A loss or a weight is no finite number; the message names the step."""


class UnsupportedError(Error, NotImplementedError):
    """Right, but not something this build can do."""


class DeviceError(Error, RuntimeError):
    """A device was lost in the middle of its work."""


class Warning(UserWarning):  # noqa: A001 - quern.Warning
    """What the library warns of: skipped files, few pictures of a class, a checkpoint that failed."""


INTERRUPTED = 7
_ERRORS: dict[int, type[Error]] = {1: ArgumentError, 2: OutOfMemoryError, 3: FileError, 4: FormatError,
                                   5: NumericError, 6: UnsupportedError, 8: DeviceError}

# ---- structures, in the order of the headers ----

F32, F64, I32, U8, I8 = 1, 2, 3, 4, 6
TRAIN, TEST, VALIDATION, ALL_SPLITS = 0, 1, 2, 3
MAX_RANK = 6


class Shape(Structure):
    _c_name_ = "qn_shape"
    _fields_ = [("rank", c_int), ("dims", c_int64 * MAX_RANK)]

    @classmethod
    def of(cls, dims: tuple[int, ...]) -> "Shape":
        return cls(len(dims), (c_int64 * MAX_RANK)(*dims))

    def __iter__(self) -> Any:
        return iter(self.dims[:self.rank])


LOG_WRITE = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
LOG_PROGRESS = CFUNCTYPE(None, c_void_p, c_char_p, c_int64, c_int64)


class Log(Structure):
    _c_name_ = "qn_log"
    _fields_ = [("user", c_void_p), ("write", LOG_WRITE), ("progress", LOG_PROGRESS)]


class Recipe(Structure):
    _c_name_ = "qn_recipe"
    _fields_ = [("optimizer", c_int), ("rate", c_double), ("momentum", c_double), ("weight_decay", c_double),
                ("nesterov", c_bool), ("schedule", c_int), ("warmup", c_int64), ("epochs", c_int64),
                ("batch", c_int64), ("steps", c_int64), ("label_smoothing", c_double), ("beta1", c_double),
                ("clip_norm", c_double)]


class NetworkSizes(Structure):
    _c_name_ = "qn_network_sizes"
    _fields_ = [("batch", c_int64), ("length", c_int64), ("target_length", c_int64), ("n_inputs", c_int64),
                ("n_outputs", c_int64), ("hidden", c_int64), ("variant", c_int), ("is_bare", c_bool)]


class ModelHead(Structure):
    """The fields of a qn_model up to its recipe; it is only ever pointed to."""
    _c_name_, _c_is_head_ = "qn_model", True
    _fields_ = [("name", c_char_p), ("domain", c_char_p), ("source", c_char_p), ("input", Shape),
                ("n_classes", c_int), ("large_size", c_int64), ("recipe", Recipe)]


class UpdateOptions(Structure):
    _c_name_ = "qn_update_options"
    _fields_ = [("optimizer", c_int), ("rate", c_double), ("momentum", c_double), ("weight_decay", c_double),
                ("nesterov", c_bool), ("beta1", c_double), ("beta2", c_double), ("epsilon", c_double),
                ("schedule", c_int), ("warmup", c_int64), ("schedule_steps", c_int64), ("clip_norm", c_double),
                ("accumulate", c_int64)]


class Tuning(Structure):
    _c_name_ = "qn_tuning"
    _fields_ = [("freeze", c_char_p), ("train_only", c_char_p), ("rates", c_char_p), ("head", c_char_p),
                ("lora_layers", c_char_p), ("lora_rank", c_int64), ("lora_alpha", c_double)]


class Sized(Structure):
    """Options, which begin with their size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.size = ctypes.sizeof(self)


class DeviceWish(Structure):
    _c_name_ = "qn_device_wish"
    _fields_ = [("prefer", c_int), ("cpu_watts", c_double), ("device_watts", c_double),
                ("idle_watts", c_double)]


class CoreWish(Structure):
    _c_name_ = "qn_core_wish"
    _fields_ = [("prefer", c_int), ("core_watts", c_double), ("idle_watts", c_double),
                ("most_watts", c_double)]


class EngineOptions(Sized):
    _c_name_ = "qn_engine_options"
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("real", c_int), ("update", UpdateOptions),
                ("tuning", Tuning), ("no_dropout", c_bool), ("micro_batch", c_int64), ("n_threads", c_int),
                ("seed", c_uint64), ("plan_only", c_bool), ("no_fusion", c_bool), ("rules", c_char_p),
                ("tune", c_int), ("memory_budget_bytes", c_size_t), ("no_least", c_bool),
                ("saved_plan", c_void_p), ("swap_folder", c_char_p), ("swap_bytes", c_size_t),
                ("budget_changes", c_bool), ("plan_later", c_bool), ("aligned_inputs", c_bool),
                ("no_random_values", c_bool), ("numerics", c_void_p),
                ("device", c_char_p), ("log", c_void_p), ("cores", c_int), ("ranks", c_void_p),
                ("device_wish", DeviceWish), ("foreground_hz", c_double), ("core_wish", CoreWish),
                ("core_facts", c_void_p), ("sparse_update", c_char_p), ("recompute", c_int)]


# Builds a program's graph: graph, user, phase, kept values; the loss, or -1. A qn_value is a number of 32 bits in a
# structure, which goes and comes as the number does.
BUILD = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int, c_void_p)


class ProgramOptions(Sized):
    _c_name_ = "qn_program_options"
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("training", c_bool), ("n_phases", c_int),
                ("trained", c_char_p * 2), ("user", c_void_p), ("build", BUILD), ("may_train_nothing", c_bool),
                ("shows_types", c_bool)]


class StoredTensor(Structure):
    _c_name_ = "qn_stored_tensor"
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("shape", Shape), ("is_state", c_bool),
                ("trainable", c_bool), ("is_frozen", c_bool), ("is_head", c_bool), ("data", c_void_p),
                ("bytes", c_size_t)]


class MemoryUse(Structure):
    _c_name_ = "qn_memory_use"
    _fields_ = [("held_bytes", c_size_t), ("peak_bytes", c_size_t), ("mapped_bytes", c_size_t),
                ("parameter_bytes", c_size_t), ("arena_bytes", c_size_t), ("planned_bytes", c_size_t),
                ("kind_bytes", c_size_t * 7)]


class BudgetUse(Structure):
    _c_name_ = "qn_budget_use"
    _fields_ = [("budget_bytes", c_size_t), ("peak_bytes", c_size_t), ("planner_bytes", c_size_t),
                ("planning_ns", c_int64), ("n_operations", c_int64), ("n_again", c_int64),
                ("swapped_bytes", c_size_t), ("is_measured", c_bool), ("micro_batch", c_int64),
                ("slowdown", c_double)]


class Preparation(Structure):
    _c_name_ = "qn_preparation"
    _fields_ = [("sample", Shape), ("centre_crop", c_bool), ("n_statistics", c_int),
                ("mean", POINTER(c_float)), ("std_dev", POINTER(c_float)), ("n_classes", c_int),
                ("class_names", POINTER(c_char_p)), ("table", c_void_p), ("n_scaled", c_int),
                ("target_mean", POINTER(c_float)), ("target_scale", POINTER(c_float))]


class DataSource(Structure):
    _c_name_ = "qn_data_source"
    _fields_ = [("self", c_void_p), ("name", c_char_p), ("n_samples", c_int64 * 3), ("sample", Shape),
                ("dtype", c_int), ("n_targets", c_int), ("preparation", Preparation), ("read", c_void_p),
                ("set_size", c_void_p), ("close", c_void_p), ("read_class", c_void_p),
                ("read_weight", c_void_p), ("columns", c_void_p), ("facts", c_void_p), ("held_out", c_char_p)]


class DataOptions(Sized):
    _c_name_ = "qn_data_options"
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("log", POINTER(Log)), ("seed", c_uint64),
                ("holdout", c_double), ("validation", c_double), ("sample", Shape), ("n_classes", c_int),
                ("n_targets", c_int), ("strict", c_bool), ("reads_texts", c_bool), ("target", c_char_p),
                ("ignore", c_char_p), ("categories", c_char_p), ("task", c_char_p), ("header", c_char_p),
                ("separator", c_char_p), ("decimal", c_char_p), ("dates", c_char_p), ("table", c_void_p),
                ("is_unlabelled", c_bool), ("held_out", c_char_p),
                ("classes_from", c_int), ("group", c_char_p), ("window", c_int64), ("stride", c_int64),
                ("time", c_char_p), ("window_label", c_char_p), ("keeps_gaps", c_bool)]


class LoaderOptions(Sized):
    _c_name_ = "qn_loader_options"
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("split", c_int), ("batch", c_int64), ("seed", c_uint64),
                ("shuffle", c_bool), ("crop", c_bool), ("flip", c_bool), ("pad_last", c_bool), ("wrap", c_bool),
                ("first", c_int64), ("n_batches", c_int64), ("n_prefetched", c_int), ("stride", c_int64)]


class Batch(Structure):
    _c_name_ = "qn_batch"
    _fields_ = [("x", POINTER(c_float)), ("y", c_void_p), ("n_valid", c_int64), ("epoch", c_int64),
                ("position", c_int64), ("weight", POINTER(c_float))]


READ = CFUNCTYPE(c_int, c_void_p, c_int, c_int64, c_void_p, c_void_p)


class Samples(Sized):
    _c_name_ = "qn_samples"
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("n", c_int64 * 3), ("x", c_void_p * 3),
                ("y", c_void_p * 3), ("sample", Shape), ("is_nchw", c_bool), ("dtype", c_int),
                ("n_classes", c_int), ("n_targets", c_int), ("user", c_void_p), ("read", READ)]


class TaskOptions(Sized):
    _c_name_ = "qn_task_options"
    _fields_ = [("size", c_size_t), ("engine", EngineOptions), ("log", POINTER(Log)),
                ("model", POINTER(ModelHead)), ("settings", c_void_p), ("training", c_bool),
                ("on_built", c_void_p), ("user", c_void_p), ("memory_outside_bytes", c_size_t),
                ("confusion", c_bool), ("source", POINTER(DataSource)), ("start", c_void_p)]


class TaskFacts(Structure):
    _c_name_ = "qn_task_facts"
    _fields_ = [("data", c_char_p), ("input", c_char_p), ("output", c_char_p), ("unit", c_char_p),
                ("n_samples", c_int64 * 3), ("batch", c_int64), ("epoch_steps", c_double),
                ("step_samples", c_int64), ("n_left_out", c_int64), ("sizes", NetworkSizes),
                ("total_steps", c_int64)]


class Metric(Structure):
    _c_name_ = "qn_metric"
    _fields_ = [("name", c_char_p), ("value", c_double), ("is_fraction", c_bool), ("is_count", c_bool)]


class Metrics(Structure):
    _c_name_ = "qn_metrics"
    _fields_ = [("n", c_int), ("list", Metric * 8)]

    def values(self) -> dict[str, float]:
        return {m.name.decode(): m.value for m in self.list[:self.n]}


PUT_LINE = CFUNCTYPE(None, c_void_p, c_char_p)
PUT_PIECE = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)


class SampleOptions(Sized):
    _c_name_ = "qn_sample_options"
    _fields_ = [("size", c_size_t), ("prompt", c_char_p), ("context", c_char_p), ("count", c_int64),
                ("length", c_int64), ("temperature", c_double), ("seed", c_uint64), ("picture", c_char_p),
                ("user", c_void_p), ("put", PUT_LINE), ("top_k", c_int64), ("top_p", c_double),
                ("repetition_penalty", c_double), ("stop", c_char_p), ("stream", PUT_PIECE),
                ("is_chat", c_bool)]


class Best(Structure):
    _c_name_ = "qn_best"
    _fields_ = [("value", c_double), ("step", c_int64), ("measured", c_int64), ("n_worse", c_int64),
                ("metric", c_char * 40), ("split", c_int)]


class TrainingEvent(Structure):
    _c_name_ = "qn_training_event"
    _fields_ = [("kind", c_int), ("step", c_int64), ("epoch", c_int64), ("ns", c_int64),
                ("metrics", POINTER(Metrics)), ("test", POINTER(Metrics)), ("validation", POINTER(Metrics)),
                ("message", c_char_p)]


SHOULD_STOP = CFUNCTYPE(c_bool, c_void_p)
SAID = CFUNCTYPE(None, c_void_p, c_int64, c_char_p)
TELL = CFUNCTYPE(None, c_void_p, POINTER(TrainingEvent))


class TrainingOptions(Sized):
    _c_name_ = "qn_training_options"
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("task", c_void_p), ("settings", c_void_p),
                ("save", c_char_p), ("save_best", c_char_p), ("save_every", c_int64), ("total_steps", c_int64),
                ("patience", c_int64), ("no_test", c_bool), ("user", c_void_p), ("should_stop", SHOULD_STOP),
                ("tell", TELL), ("clock_ns", c_void_p), ("meter", c_void_p), ("is_standby", c_bool),
                ("replaces_longer", c_bool), ("stop_flag", c_void_p)]


class TrainingState(Structure):
    _c_name_ = "qn_training_state"
    _fields_ = [("first_step", c_int64), ("total_steps", c_int64), ("saved_step", c_int64),
                ("saved_best_step", c_int64), ("n_saved", c_int64), ("saving_ns", c_int64),
                ("has_best", c_bool), ("is_stopped", c_bool), ("is_trained", c_bool), ("best", Best),
                ("saved_to", c_char_p), ("saved_best_to", c_char_p)]


class MeterOptions(Sized):
    _c_name_ = "qn_meter_options"
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("log", POINTER(Log)), ("engine", c_void_p),
                ("samples_per_step", c_double), ("skip_steps", c_int64), ("interval_ns", c_int64),
                ("most_bytes", c_size_t), ("title", c_char_p), ("sysroot", c_char_p), ("replay", c_char_p),
                ("description", c_char_p)]


class LearningOptions(Sized):
    _c_name_ = "qn_learning_options"
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("folder", c_char_p), ("model", c_char_p),
                ("inbox", c_char_p), ("old", c_char_p), ("n_kept", c_int64), ("batch", c_int64), ("seed", c_int64),
                ("n_fresh", c_int64), ("memory_bytes", c_int64), ("disk_bytes", c_int64), ("n_threads", c_int),
                ("when", c_char_p), ("day_joules", c_double), ("day_minutes", c_double), ("watts", c_double),
                ("power_watts", c_double), ("sysroot", c_char_p), ("user", c_void_p), ("should_stop", SHOULD_STOP),
                ("said", SAID)]


class LearningFacts(Structure):
    _c_name_ = "qn_learning_facts"
    _fields_ = [("version", c_int64), ("step", c_int64), ("n_steps", c_int64), ("n_fresh", c_int64),
                ("n_taken", c_int64), ("longest_step_seconds", c_double)]


class MeterSummary(Structure):
    _c_name_ = "qn_meter_summary"
    _fields_ = [("steps", c_int64), ("median_step_ms", c_double), ("mean_step_ms", c_double),
                ("operations_ms_per_step", c_double), ("idle_ms_per_step", c_double),
                ("energy_mj_per_step", c_double), ("energy_is_estimated", c_bool),
                ("samples_per_second", c_double), ("flops_per_second", c_double),
                ("cpu_utilisation", c_double), ("gpu_utilisation", c_double), ("resident_peak_bytes", c_double)]


class OnnxOptions(Sized):
    _c_name_ = "qn_onnx_options"
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("log", POINTER(Log)), ("keep_softmax", c_bool),
                ("shapes", c_char_p), ("train_only", c_char_p), ("requires_grad", c_char_p), ("values", c_char_p),
                ("follow_links", c_bool)]


class OnnxPlace(Structure):
    _c_name_ = "qn_onnx_place"
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("n_dims", c_int), ("dims", c_int64 * MAX_RANK),
                ("is_image", c_bool), ("batch_axis", c_int)]


class OnnxExportOptions(Sized):
    _c_name_ = "qn_onnx_export_options"
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("model", POINTER(ModelHead)), ("input", Shape),
                ("n_outputs", c_int), ("sizes", POINTER(NetworkSizes)), ("seed", c_uint64), ("engine", c_void_p),
                ("is_outside", c_bool), ("properties", c_void_p), ("preparation", POINTER(Preparation)),
                ("with_preparation", c_bool), ("source", c_void_p), ("numerics", c_void_p),
                ("samples", POINTER(c_float)), ("n_samples", c_int64), ("weights", c_char_p)]


# ---- functions: result, then arguments; a status raises ----

Status = "status"
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "qn_error_message": (c_char_p,),
    "qn_version": (c_char_p,),
    "qn_data_open": (Status, c_char_p, POINTER(DataOptions), POINTER(DataSource)),
    "qn_data_open_samples": (Status, POINTER(Samples), POINTER(DataOptions), POINTER(DataSource)),
    "qn_data_close": (None, POINTER(DataSource)),
    "qn_data_kind_of": (c_char_p, c_char_p),
    "qn_loader_create": (Status, POINTER(DataSource), POINTER(Preparation), POINTER(LoaderOptions), POINTER(c_void_p)),
    "qn_loader_destroy": (None, c_void_p),
    "qn_loader_next": (Status, c_void_p, POINTER(Batch)),
    "qn_numerics_create": (Status, c_void_p, c_char_p, POINTER(c_void_p)),
    "qn_numerics_destroy": (None, c_void_p),
    "qn_numerics_has": (c_bool, c_void_p, c_int),
    "qn_model_at": (POINTER(ModelHead), c_int),
    "qn_model_find": (POINTER(ModelHead), c_char_p),
    "qn_model_classes": (c_int, POINTER(ModelHead), Shape),
    "qn_metadata_create": (Status, c_void_p, POINTER(c_void_p)),
    "qn_metadata_destroy": (None, c_void_p),
    "qn_metadata_set": (Status, c_void_p, c_char_p, c_char_p),
    "qn_metadata_count": (c_int, c_void_p),
    "qn_metadata_at": (None, c_void_p, c_int, POINTER(c_char_p), POINTER(c_char_p)),
    "qn_metadata_get_preparation": (Status, c_void_p, POINTER(Preparation)),
    "qn_checkpoint_save": (Status, c_void_p, c_void_p, c_char_p),
    "qn_checkpoint_save_merged": (Status, c_void_p, c_void_p, c_char_p),
    "qn_checkpoint_read": (Status, c_void_p, c_char_p, POINTER(c_void_p)),
    "qn_task_begin": (Status, c_void_p, POINTER(c_int), POINTER(c_int), POINTER(c_int)),
    "qn_task_kept_outputs": (c_int, c_void_p),
    "qn_task_open_data": (Status, c_void_p, c_char_p, POINTER(DataSource)),
    "qn_input": (c_int32, c_void_p, c_char_p, Shape),
    "qn_index_input": (c_int32, c_void_p, c_char_p, Shape),
    "qn_result": (None, c_void_p, c_int32),
    "qn_engine_create": (Status, POINTER(EngineOptions), POINTER(ProgramOptions), c_int, POINTER(c_void_p)),
    "qn_engine_destroy": (None, c_void_p),
    "qn_engine_run": (Status, c_void_p, c_int, POINTER(c_void_p)),
    "qn_engine_result": (c_void_p, c_void_p, c_int, c_int),
    "qn_engine_result_shape": (Shape, c_void_p, c_int, c_int),
    "qn_engine_tensor_count": (c_int, c_void_p),
    "qn_engine_tensor_at": (StoredTensor, c_void_p, c_int),
    "qn_engine_steps": (c_int64, c_void_p),
    "qn_engine_is_sound": (c_bool, c_void_p),
    "qn_engine_merge_adapters": (None, c_void_p),
    "qn_engine_get_memory": (MemoryUse, c_void_p),
    "qn_engine_get_budget": (BudgetUse, c_void_p),
    "qn_engine_print_plan": (c_char_p, c_void_p, c_int),
    "qn_task_open": (Status, POINTER(TaskOptions), POINTER(c_void_p)),
    "qn_task_close": (None, c_void_p),
    "qn_task_engine": (c_void_p, c_void_p),
    "qn_task_load": (Status, c_void_p, c_char_p, c_bool),
    "qn_task_get_facts": (TaskFacts, c_void_p),
    "qn_task_of": (c_char_p, POINTER(ModelHead)),
    "qn_task_evaluate": (Status, c_void_p, c_int, SHOULD_STOP, c_void_p, POINTER(Metrics), POINTER(c_int64)),
    "qn_task_evaluate_on": (Status, c_void_p, POINTER(DataSource), c_int, SHOULD_STOP, c_void_p,
                            POINTER(Metrics), POINTER(c_int64)),
    "qn_task_predict": (Status, c_void_p, POINTER(DataSource), c_int, SHOULD_STOP, c_void_p, c_void_p),
    "qn_task_output_count": (c_int, c_void_p),
    "qn_task_held_out": (c_char_p, c_void_p),
    "qn_task_sample": (Status, c_void_p, POINTER(SampleOptions)),
    "qn_training_create": (Status, POINTER(TrainingOptions), POINTER(c_void_p)),
    "qn_training_destroy": (None, c_void_p),
    "qn_training_run": (Status, c_void_p),
    "qn_training_get_state": (TrainingState, c_void_p),
    "qn_learning_open": (Status, POINTER(LearningOptions), POINTER(c_void_p)),
    "qn_learning_close": (None, c_void_p),
    "qn_learning_input": (Shape, c_void_p),
    "qn_learning_offer": (Status, c_void_p, c_void_p, c_int32, c_char_p),
    "qn_learning_turn": (Status, c_void_p, POINTER(c_int), POINTER(c_int64)),
    "qn_learning_get_facts": (LearningFacts, c_void_p),
    "qn_learning_undo": (Status, c_void_p),
    "qn_learning_set_paused": (Status, c_void_p, c_bool),
    "qn_meter_start": (Status, POINTER(MeterOptions), POINTER(c_void_p)),
    "qn_meter_mark": (None, c_void_p),
    "qn_meter_stop": (None, c_void_p),
    "qn_meter_destroy": (None, c_void_p),
    "qn_meter_report": (Status, c_void_p, POINTER(MeterSummary)),
    "qn_meter_write": (Status, c_void_p, c_int, c_char_p),
    "qn_onnx_open": (Status, POINTER(OnnxOptions), c_char_p, POINTER(c_void_p)),
    "qn_onnx_close": (None, c_void_p),
    "qn_onnx_options_read": (None, c_void_p, POINTER(OnnxOptions)),
    "qn_onnx_model_for": (Status, c_void_p, c_char_p, POINTER(POINTER(ModelHead))),
    "qn_onnx_properties": (Status, c_void_p, c_void_p), "qn_task_read_network": (Status, c_void_p, c_bool, c_void_p),
    "qn_onnx_hash": (Status, c_void_p, c_char * 17),
    "qn_onnx_input_count": (c_int, c_void_p),
    "qn_onnx_output_count": (c_int, c_void_p),
    "qn_onnx_input": (POINTER(OnnxPlace), c_void_p, c_int),
    "qn_onnx_output": (POINTER(OnnxPlace), c_void_p, c_int),
    "qn_onnx_build": (Status, c_void_p, c_void_p, POINTER(c_int32), POINTER(c_int32)),
    "qn_onnx_export": (Status, POINTER(OnnxExportOptions), c_char_p),
}


def _say_in_python(message: str) -> str:
    """Options of the command are arguments here: "--early-stop N" becomes "early_stop=N"."""
    def argument(found: re.Match[str]) -> str:
        value = (found.group(2) or "").strip()
        is_word = not value or value.isupper() or value.isdigit()
        quoted = value if is_word else f'"{value}"'
        return found.group(1).replace("-", "_") + "=" + quoted
    return re.sub(r"--([a-z][a-z-]*[a-z])( (?:[A-Z]+\b|\d[\w.]*|data\b|regression\b))?", argument, message)


def message_of_thread() -> str:
    """The text of the calling thread's last failure."""
    text: bytes = lib.qn_error_message()
    return _say_in_python(text.decode(errors="replace"))


def _check(status: int, function: Any, arguments: Any) -> int:
    if status == 0:
        return 0
    if status == INTERRUPTED:
        raise KeyboardInterrupt(message_of_thread())
    raise _ERRORS.get(status, Error)(message_of_thread())


def _load() -> ctypes.CDLL:
    place = os.environ.get("QUERN_LIBRARY") or str(pathlib.Path(__file__).parent / "libquern.so")
    try:
        library = ctypes.CDLL(place)
    except OSError as problem:
        raise ImportError(f"quern's library cannot be opened: {problem}") from None
    for name, (result, *arguments) in _FUNCTIONS.items():
        if name.startswith("qn_learning_") and not hasattr(library, name):
            continue  # a library that was built without
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int if result is Status else result
        if result is Status:
            function.errcheck = _check
    return library


lib = _load()

# ---- what the library tells ----

_logger = logging.getLogger("quern")
_progress: list[Any] = []  # who shows how far preparing data is; the last one


def show_preparing(who: Any) -> None:
    """From now on who(what, done, n) is told how far work before training is; None: nobody."""
    _progress[:] = [who] if who else []


def warn(text: str) -> None:
    """A Warning of the line that called this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("quern."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, Warning, stacklevel=level)


def tell(_user: Any, level: int, text: bytes) -> None:
    """Passes on a notice (level 0) or a warning of the library."""
    said = _say_in_python(text.decode(errors="replace"))
    if level > 0:
        warn(said)
    else:
        _logger.info("%s", said)


def _show(_user: Any, what: bytes, done: int, n: int) -> None:
    if _progress:
        _progress[-1](what.decode(errors="replace"), done, n)


log = Log(None, LOG_WRITE(tell), LOG_PROGRESS(_show))


def encode(path: str | os.PathLike[str] | None) -> bytes | None:
    """A path as the library takes it."""
    return None if path is None else os.fsencode(os.path.expanduser(path))
