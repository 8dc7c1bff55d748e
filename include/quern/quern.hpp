/* quern for C++17: the C interface with owners that release what they hold, failures as exceptions,
 * and containers instead of pointers with counts.
 *
 *     quern::predictor look("photos.safetensors");
 *     std::cout << look.classify_file("new.jpg").name << '\n';
 *
 *     quern::run run(quern::model::named("lenet5"), {{"data", "fashion-mnist"}, {"epochs", "2"}});
 *     run.train([](const quern::event &e) { return e.step < 5000; });   // false: enough
 *     run.save("clothes.safetensors");
 *
 * It is a header alone, and needs no C++ library of quern's. What it leaves out is reached by get(),
 * which gives the C object. A moved-from object holds nothing: only destruction and assignment are
 * allowed. Exceptions of a callback end the call that made it and arrive there. Threads: as the C
 * interface says. */
#ifndef QUERN_QUERN_HPP
#define QUERN_QUERN_HPP

#include "quern/quern.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

namespace quern {

/* A failure: code() is the C interface's status, what() its message, with what to do. Memory that is
 * out, or a budget that cannot work, is an error too, of the code QN_ERROR_MEMORY. */
class error : public std::runtime_error {
public:
    error(qn_status code, const std::string &text) : std::runtime_error(text), code_(code) {}
    qn_status code() const noexcept { return code_; }

private:
    qn_status code_;
};

/* Throws what a C function returned, unless it is QN_OK. */
inline void check(qn_status status) {
    if (status != QN_OK) {
        const char *text = qn_error_message();
        throw error(status, text && *text ? text : qn_status_text(status));
    }
}

#if __cplusplus >= 202002L
template <class T> using span = std::span<T>;
#else
/* What std::span is in C++20, as far as it is needed here: of a container, or a pointer and a count. */
template <class T> class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <class C, class = decltype(static_cast<T *>(std::declval<C &>().data()))>
    constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size()) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T &operator[](std::size_t i) const { return data_[i]; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

/* Numbers of the library and of this header, as "1.2.3": they may differ where the library is shared. */
inline std::string library_version() { return qn_version(); }
inline std::string header_version() { return QN_VERSION_TEXT; }

namespace detail {

template <auto Close> struct closer {
    template <class T> void operator()(T *held) const noexcept { Close(held); }
};
template <class T, auto Close> using owner = std::unique_ptr<T, closer<Close>>;

inline const char *text_or_null(const std::string &text) { return text.empty() ? nullptr : text.c_str(); }

inline std::size_t elements(qn_shape shape) {
    std::size_t n = 1;
    for (int i = 0; i < shape.rank; i++)
        n *= static_cast<std::size_t>(shape.dims[i]);
    return n;
}

inline void need(bool is_so, const char *what) {
    if (!is_so)
        throw error(QN_ERROR_ARGUMENT, what);
}

/* What a callback threw, kept while C code is between. */
class carried {
public:
    template <class F> bool run(F &&function) noexcept {
        try {
            return function();
        } catch (...) {
            thrown_ = std::current_exception();
            return false;
        }
    }
    bool is_thrown() const noexcept { return static_cast<bool>(thrown_); }
    void rethrow() {
        if (thrown_)
            std::rethrow_exception(std::exchange(thrown_, nullptr));
    }

private:
    std::exception_ptr thrown_;
};

} // namespace detail

/* An option struct of the C interface with its size set, and the engine's in it; all else is 0, the
 * default. */
template <class T> T make_options() {
    T made{};
    made.size = sizeof made;
    if constexpr (std::is_same_v<T, qn_task_options> || std::is_same_v<T, qn_trainer_options>)
        made.engine.size = sizeof made.engine;
    return made;
}

/* A shape from its extents: shape({28, 28, 1}). */
inline qn_shape shape(std::initializer_list<std::int64_t> extents) {
    detail::need(extents.size() <= QN_MAX_RANK, "a shape of too many extents");
    qn_shape made{};
    for (std::int64_t extent : extents)
        made.dims[made.rank++] = extent;
    return made;
}

/* ---- settings ---- */

/* Text pairs, named like the options of quern train without their hyphens in front. */
using settings = std::map<std::string, std::string>;

namespace detail {

using metadata = owner<qn_metadata, qn_metadata_destroy>;

inline metadata to_metadata(const settings &pairs) {
    qn_metadata *made = nullptr;
    check(qn_metadata_create(nullptr, &made));
    metadata held(made);
    for (const auto &pair : pairs)
        check(qn_metadata_set(made, pair.first.c_str(), pair.second.c_str()));
    return held;
}

inline settings to_settings(const qn_metadata *pairs) {
    settings made;
    for (int i = 0; i < qn_metadata_count(pairs); i++) {
        const char *key = nullptr, *value = nullptr;
        qn_metadata_at(pairs, i, &key, &value);
        made[key] = value;
    }
    return made;
}

} // namespace detail

/* What a checkpoint says of itself: its model, data, classes, step. */
inline settings read_checkpoint(const std::string &path) {
    qn_metadata *read = nullptr;
    check(qn_checkpoint_read(nullptr, path.c_str(), &read));
    detail::metadata held(read);
    return detail::to_settings(read);
}

/* ---- models ---- */

/* A network: one of the zoo, of an ONNX file, or of one's own. Cheap to copy: copies share it. */
class model {
public:
    /* One of the zoo; an unknown name is an error that suggests the nearest. */
    static model named(const std::string &name) {
        const qn_model *found = qn_model_find(name.c_str());
        if (!found)
            throw error(QN_ERROR_ARGUMENT, qn_error_message());
        return model(found, nullptr, name, {});
    }

    /* The classifier, or the network of another task, that an ONNX file holds. */
    static model from_onnx(const std::string &path) {
        auto options = make_options<qn_onnx_options>();
        qn_onnx_network *opened = nullptr;
        check(qn_onnx_open(&options, path.c_str(), &opened));
        std::shared_ptr<qn_onnx_network> held(opened, qn_onnx_close);
        const qn_model *found = nullptr;
        check(qn_onnx_model_for(opened, nullptr, &found));
        char hash[QN_ONNX_HASH_TEXT];
        check(qn_onnx_hash(opened, hash));
        return model(found, held, path, hash);
    }

    /* A model of one's own, whose struct outlives all that uses it. Checkpoints cannot name it. */
    static model own(const qn_model &mine) { return model(&mine, nullptr, mine.name, {}); }

    /* Names of the zoo, in its order. */
    static std::vector<std::string> names() {
        std::vector<std::string> all;
        for (int i = 0; const qn_model *one = qn_model_at(i); i++)
            all.emplace_back(one->name);
        return all;
    }

    const qn_model *get() const noexcept { return model_; }
    const std::string &name() const noexcept { return name_; }
    const std::string &hash() const noexcept { return hash_; } /* of an ONNX file; "": none */

private:
    model(const qn_model *found, std::shared_ptr<qn_onnx_network> network, std::string name, std::string hash)
        : model_(found), network_(std::move(network)), name_(std::move(name)), hash_(std::move(hash)) {}

    const qn_model *model_;
    std::shared_ptr<qn_onnx_network> network_;
    std::string name_, hash_;
};

/* ---- data ---- */

/* An opened data set. */
class data {
public:
    /* What --data names: "images:photos", "csv:table.csv,label=kind". pairs of options: see
     * qn_data_options. */
    explicit data(const std::string &specification, const qn_data_options *options = nullptr)
        : source_(new qn_data_source{}, closer{}) {
        check(qn_data_open(specification.c_str(), options, source_.get()));
        source_.get_deleter().is_open = true;
    }

    /* Samples in memory, which stays where it is and outlives the set; see qn_data_open_samples. */
    explicit data(const qn_samples &samples, const qn_data_options *options = nullptr)
        : source_(new qn_data_source{}, closer{}) {
        check(qn_data_open_samples(&samples, options, source_.get()));
        source_.get_deleter().is_open = true;
    }

    /* Rows (n, columns) of numbers with the class of each, as above. holdout: the part of them that
     * is not trained on, for tests. */
    static data rows(span<const float> x, span<const std::int32_t> classes, double holdout = 0) {
        detail::need(!classes.empty() && x.size() % classes.size() == 0, "x is not so many numbers for each class");
        auto samples = make_options<qn_samples>();
        samples.n[QN_TRAIN] = static_cast<std::int64_t>(classes.size());
        samples.x[QN_TRAIN] = x.data();
        samples.y[QN_TRAIN] = classes.data();
        samples.sample = shape({static_cast<std::int64_t>(x.size() / classes.size())});
        samples.dtype = QN_F32;
        auto options = make_options<qn_data_options>();
        options.holdout = holdout;
        return data(samples, &options);
    }

    std::int64_t size(qn_split split) const { return source_->n_samples[split]; }
    const qn_data_source *get() const noexcept { return source_.get(); }

private:
    struct closer {
        bool is_open = false;
        void operator()(qn_data_source *source) const noexcept {
            if (is_open)
                qn_data_close(source);
            delete source;
        }
    };
    std::unique_ptr<qn_data_source, closer> source_;
};

/* ---- prediction ---- */

struct prediction {
    int index = -1;   /* of the output */
    std::string name; /* of the class; "": it has none */
    double value = 0; /* probability, or the target's value */
};

/* An image in memory: rows from top to bottom, pixels red, green, blue, or grey. */
struct image {
    span<const std::uint8_t> pixels; /* (height, width, channels) */
    std::int64_t height = 0, width = 0;
    int channels = 3;
};

struct predictor_options {
    std::string model;      /* of a checkpoint that does not name its own */
    std::int64_t batch = 1; /* images computed together */
    int threads = 0;        /* 0: as many as pay */
};

/* Trained weights at work: of a checkpoint, or an ONNX file. */
class predictor {
public:
    explicit predictor(const std::string &path, const predictor_options &how = {}) {
        auto options = make_options<qn_predictor_options>();
        options.model = detail::text_or_null(how.model);
        options.batch = how.batch;
        options.n_threads = how.threads;
        qn_predictor *opened = nullptr;
        check(qn_predictor_open(path.c_str(), &options, &opened));
        held_.reset(opened);
    }

    qn_predictor_facts facts() const { return qn_predictor_get_facts(held_.get()); }

    /* Names of the outputs, in their order; empty where they have none. */
    std::vector<std::string> names() const {
        const qn_predictor_facts f = facts();
        return f.names ? std::vector<std::string>(f.names, f.names + f.n_names) : std::vector<std::string>();
    }

    prediction classify(const image &shown) {
        const qn_image plain = to_c(shown);
        qn_prediction best{};
        check(qn_predictor_classify(held_.get(), &plain, &best));
        return to_cpp(best);
    }

    prediction classify_file(const std::string &path) {
        qn_prediction best{};
        check(qn_predictor_classify_file(held_.get(), path.c_str(), &best));
        return to_cpp(best);
    }

    /* All outputs of images, (images, outputs). */
    std::vector<float> predict(span<const image> shown) {
        std::vector<qn_image> plain;
        plain.reserve(shown.size());
        for (const image &one : shown)
            plain.push_back(to_c(one));
        std::vector<float> outputs = room(plain.size());
        check(qn_predictor_predict(held_.get(), plain.data(), static_cast<std::int64_t>(plain.size()), outputs.data()));
        return outputs;
    }

    std::vector<float> predict_file(const std::string &path) {
        std::vector<float> outputs = room(1);
        check(qn_predictor_predict_file(held_.get(), path.c_str(), outputs.data()));
        return outputs;
    }

    /* All outputs of samples that are prepared, (n,) + facts().input. */
    std::vector<float> predict_prepared(span<const float> x) {
        const std::size_t one = detail::elements(facts().input);
        detail::need(one > 0 && x.size() % one == 0, "x is not a whole number of samples");
        std::vector<float> outputs = room(x.size() / one);
        check(qn_predictor_predict_prepared(held_.get(), x.data(), static_cast<std::int64_t>(x.size() / one),
                                            outputs.data()));
        return outputs;
    }

    /* The likeliest of a row of outputs, first the best. */
    std::vector<prediction> rank(span<const float> outputs, int n) const {
        const int n_outputs = facts().n_outputs;
        detail::need(outputs.size() == static_cast<std::size_t>(n_outputs), "outputs are not those of one sample");
        std::vector<qn_prediction> plain(static_cast<std::size_t>(n < n_outputs ? (n > 0 ? n : 0) : n_outputs));
        std::vector<prediction> found;
        const int n_found = qn_predictor_rank(held_.get(), outputs.data(), static_cast<int>(plain.size()), plain.data());
        for (int i = 0; i < n_found; i++)
            found.push_back(to_cpp(plain[static_cast<std::size_t>(i)]));
        return found;
    }

    qn_predictor *get() const noexcept { return held_.get(); }

private:
    static qn_image to_c(const image &shown) {
        detail::need(shown.height > 0 && shown.width > 0 && shown.channels > 0 &&
                         shown.pixels.size() / static_cast<std::size_t>(shown.width) /
                                 static_cast<std::size_t>(shown.channels) ==
                             static_cast<std::size_t>(shown.height) &&
                         shown.pixels.size() % (static_cast<std::size_t>(shown.width) *
                                                static_cast<std::size_t>(shown.channels)) == 0,
                     "an image's pixels are not height x width x channels");
        return qn_image{shown.pixels.data(), shown.height, shown.width, shown.channels};
    }

    static prediction to_cpp(const qn_prediction &plain) {
        return prediction{plain.index, plain.name ? plain.name : "", plain.value};
    }

    std::vector<float> room(std::size_t n) const {
        return std::vector<float>(n * static_cast<std::size_t>(facts().n_outputs));
    }

    detail::owner<qn_predictor, qn_predictor_close> held_;
};

/* ---- training ---- */

using metrics = std::map<std::string, double>;

/* What a run tells: a step (is_epoch false) with its metrics, or the end of an epoch with those of
 * validation and test samples, empty where there are none; or a warning. */
struct event {
    bool is_epoch = false;
    std::int64_t step = 0, epoch = 0;
    metrics training, validation, test;
    std::string warning;
};

struct run_options {
    std::size_t memory = 0; /* budget in bytes of everything that the run takes; 0: none */
    int threads = 0;        /* 0: the processors there are; bits do not depend on it */
    std::string save;       /* checkpoint, also written meanwhile; "": none */
    std::string save_best;  /* of the best weights; "": none */
    std::int64_t patience = 0;          /* epochs without improvement until it ends; 0: unlimited */
    bool replaces_longer = false;       /* a checkpoint of more steps may be replaced */
    const quern::data *source = nullptr; /* instead of the setting "data"; it outlives the run */
};

/* A network with its data: trained, measured, saved. What quern train does, in a program. */
class run {
public:
    /* pairs: as the options of quern train. */
    run(quern::model network, settings pairs, run_options how = {})
        : network_(std::move(network)), how_(std::move(how)) {
        pairs.emplace("format", "quern checkpoint 1");
        pairs["model"] = network_.name();
        if (!network_.hash().empty())
            pairs["model_hash"] = network_.hash();
        pairs_ = detail::to_metadata(pairs);
        auto options = make_options<qn_task_options>();
        options.engine.memory_budget_bytes = how_.memory;
        options.engine.n_threads = how_.threads;
        options.model = network_.get();
        options.settings = pairs_.get();
        options.training = true;
        options.source = how_.source ? how_.source->get() : nullptr;
        qn_task *opened = nullptr;
        check(qn_task_open(&options, &opened));
        task_.reset(opened);
    }

    /* Goes on from a checkpoint: weights, the optimiser's state, and the place in the data. */
    void resume(const std::string &path) { check(qn_task_load(task_.get(), path.c_str(), true)); }

    /* Trains to the end of the settings' epochs or steps. told: called after each step and epoch;
     * false ends the run in good order, with its checkpoint written. Returns false where it was
     * ended so. */
    bool train(const std::function<bool(const event &)> &told = {}) {
        listener here{told, {}, false};
        auto options = make_options<qn_training_options>();
        options.task = task_.get();
        options.settings = pairs_.get();
        options.save = detail::text_or_null(how_.save);
        options.save_best = detail::text_or_null(how_.save_best);
        options.patience = how_.patience;
        options.replaces_longer = how_.replaces_longer;
        options.user = &here;
        options.should_stop = [](void *user) { return static_cast<listener *>(user)->is_ended; };
        options.tell = [](void *user, const qn_training_event *e) { static_cast<listener *>(user)->take(*e); };
        qn_training *made = nullptr;
        check(qn_training_create(&options, &made));
        detail::owner<qn_training, qn_training_destroy> training(made);
        const qn_status status = qn_training_run(made);
        here.thrown.rethrow();
        if (status == QN_ERROR_INTERRUPTED && here.is_ended)
            return false;
        check(status);
        return true;
    }

    /* Metrics of a split of the run's own data. */
    metrics evaluate(qn_split split = QN_TEST) {
        qn_metrics found{};
        std::int64_t n = 0;
        check(qn_task_evaluate(task_.get(), split, nullptr, nullptr, &found, &n));
        detail::need(n > 0, "the data has no samples of this split");
        return to_map(&found);
    }

    /* Writes a checkpoint of the weights as they are now. */
    void save(const std::string &path) const {
        check(qn_checkpoint_save(qn_task_engine(task_.get()), pairs_.get(), path.c_str()));
    }

    /* The run's settings, with what the data and the model decided. */
    settings pairs() const { return detail::to_settings(pairs_.get()); }
    std::int64_t steps() const { return qn_engine_steps(qn_task_engine(task_.get())); }
    qn_memory_use memory() const { return qn_engine_get_memory(qn_task_engine(task_.get())); }
    qn_task *get() const noexcept { return task_.get(); }

private:
    struct listener {
        const std::function<bool(const event &)> &told;
        detail::carried thrown;
        bool is_ended;

        void take(const qn_training_event &e) noexcept {
            if (!told || thrown.is_thrown())
                return;
            if (!thrown.run([&] { return told(to_event(e)); }))
                is_ended = true;
        }
    };

    static metrics to_map(const qn_metrics *found) {
        metrics made;
        for (int i = 0; found && i < found->n; i++)
            made[found->list[i].name] = found->list[i].value;
        return made;
    }

    static event to_event(const qn_training_event &e) {
        event made;
        made.is_epoch = e.kind == QN_TRAINING_EPOCH;
        made.step = e.step;
        made.epoch = e.epoch;
        made.training = to_map(e.metrics);
        made.validation = to_map(e.validation);
        made.test = to_map(e.test);
        if (e.kind == QN_TRAINING_WARNING && e.message)
            made.warning = e.message;
        return made;
    }

    quern::model network_;
    run_options how_;
    detail::metadata pairs_;
    detail::owner<qn_task, qn_task_close> task_;
};

/* ---- the trainer ---- */

/* A classifier that is trained batch by batch, by a loop of one's own. */
class trainer {
public:
    /* options: qn_trainer_options_for(network.get()) and what is to be another. */
    trainer(quern::model network, qn_trainer_options options) : network_(std::move(network)) {
        options.model = network_.get();
        qn_trainer *made = nullptr;
        check(qn_trainer_create(&options, &made));
        held_.reset(made);
    }

    /* One batch: x (batch,) + input, the class of each. */
    qn_step_result step(span<const float> x, span<const std::int32_t> classes) {
        need_batch(x.size(), classes.size(), options().batch);
        qn_step_result result{};
        check(qn_trainer_step(held_.get(), x.data(), classes.data(), &result));
        return result;
    }

    /* Outputs (evaluation batch, outputs) of x, likewise. */
    std::vector<float> predict(span<const float> x) {
        const std::int64_t n = evaluation_batch();
        need_batch(x.size(), static_cast<std::size_t>(n), n);
        std::vector<float> outputs(static_cast<std::size_t>(n) * static_cast<std::size_t>(options().n_outputs));
        check(qn_trainer_predict(held_.get(), x.data(), outputs.data()));
        return outputs;
    }

    void save(const std::string &path, const settings &pairs = {}) const {
        const detail::metadata held = detail::to_metadata(pairs);
        check(qn_checkpoint_save(qn_trainer_engine(held_.get()), held.get(), path.c_str()));
    }

    /* Weights, the optimiser's state and the step of a file. */
    void load(const std::string &path) {
        check(qn_checkpoint_load(qn_trainer_engine(held_.get()), path.c_str(), true));
    }

    const qn_trainer_options &options() const { return *qn_trainer_get_options(held_.get()); }
    std::int64_t steps() const { return qn_trainer_steps(held_.get()); }
    qn_trainer *get() const noexcept { return held_.get(); }

private:
    std::int64_t evaluation_batch() const {
        return options().evaluation_batch > 0 ? options().evaluation_batch : options().batch;
    }

    void need_batch(std::size_t numbers, std::size_t samples, std::int64_t batch) const {
        detail::need(options().engine.real != QN_F64, "this trainer takes doubles: use the C interface");
        detail::need(samples == static_cast<std::size_t>(batch), "the samples are not as many as the batch has");
        detail::need(numbers == samples * detail::elements(options().input), "x is not (batch,) + input");
    }

    quern::model network_;
    detail::owner<qn_trainer, qn_trainer_destroy> held_;
};

} // namespace quern
#endif
