// The C++ header: owners, failures, callbacks that throw, macros of C that C++ uses too.
#include <quern/quern.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0                                                                         \
                 : (std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition), std::exit(1)))

namespace {

template <class F> std::string text_of(F &&function, qn_status wanted) {
    try {
        function();
    } catch (const quern::error &failure) {
        CHECK(failure.code() == wanted);
        return failure.what();
    }
    std::puts("nothing was thrown");
    std::exit(1);
}

struct samples {
    std::vector<float> x;
    std::vector<std::int32_t> classes;
};

samples make(std::size_t n) {
    samples made;
    std::uint32_t state = 7;
    for (std::size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < 3; k++) {
            state = state * 1664525u + 1013904223u;
            made.x.push_back(static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1);
            sum += made.x.back();
        }
        made.classes.push_back(sum > 0);
    }
    return made;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // the defaults

void try_macros() {
    const qn_loader_options loader = {QN_OPTIONS_INIT(qn_loader_options)};
    const qn_task_options task = {QN_TASK_OPTIONS_INIT};
    const qn_trainer_options trainer = {QN_TRAINER_OPTIONS_INIT};
    CHECK(loader.size == sizeof loader && loader.batch == 0);
    CHECK(task.size == sizeof task && task.engine.size == sizeof task.engine && !task.model);
    CHECK(trainer.size == sizeof trainer && trainer.engine.size == sizeof trainer.engine);
    constexpr qn_shape shape = QN_SHAPE(2, 3, 5);
    static_assert(shape.rank == 3 && shape.dims[2] == 5, "extents in their order");
    CHECK(QN_SHAPE(4).rank == 1 && QN_NO_VALUE.id == -1);
    CHECK(quern::shape({7, 9}).dims[1] == 9);
    CHECK(quern::header_version() == quern::library_version());
    CHECK(quern::header_version() == std::to_string(QN_VERSION_MAJOR) + "." + std::to_string(QN_VERSION_MINOR) +
                                         "." + std::to_string(QN_VERSION_PATCH));
    CHECK(quern::make_options<qn_task_options>().engine.size == task.engine.size);
    CHECK(quern::make_options<qn_loader_options>().size == loader.size);
}

#pragma GCC diagnostic pop

void try_failures() {
    CHECK(text_of([] { quern::model::named("lenet6"); }, QN_ERROR_ARGUMENT).find("lenet5") != std::string::npos);
    text_of([] { quern::predictor("/nowhere.safetensors"); }, QN_ERROR_IO);
    text_of([] { quern::data("images:/nowhere"); }, QN_ERROR_IO);
    text_of([] { quern::model::from_onnx("/nowhere.onnx"); }, QN_ERROR_IO);
    text_of([] { quern::shape({1, 2, 3, 4, 5, 6, 7}); }, QN_ERROR_ARGUMENT);
    text_of([] { quern::data::rows(std::vector<float>(7), std::vector<std::int32_t>(2)); }, QN_ERROR_ARGUMENT);
    const samples made = make(40);
    const quern::data source = quern::data::rows(made.x, made.classes);
    quern::run_options how;
    how.source = &source;
    how.memory = 10'000;
    CHECK(text_of([&] { quern::run(quern::model::named("mlp"), {}, how); }, QN_ERROR_MEMORY).size() > 20);
}

struct thrown_here {};

void try_run(const std::string &folder) {
    const samples made = make(400);
    quern::data first = quern::data::rows(made.x, made.classes, 0.25);
    const quern::data source = std::move(first);
    CHECK(source.size(QN_TRAIN) + source.size(QN_TEST) == 400 && source.size(QN_TEST) > 50);
    quern::run_options how;
    how.source = &source;
    how.save = folder + "/run.safetensors";
    quern::run run(quern::model::named("mlp"), {{"epochs", "4"}, {"batch", "20"}, {"lr", "0.05"}}, how);
    bool was_thrown = false;
    try {
        run.train([](const quern::event &now) -> bool {
            if (now.step == 3)
                throw thrown_here{};
            return true;
        });
    } catch (const thrown_here &) {
        was_thrown = true;
    }
    CHECK(was_thrown && run.steps() == 3);
    CHECK(quern::read_checkpoint(how.save).at("step") == "3");
    CHECK(!run.train([](const quern::event &now) { return now.step < 10; }) && run.steps() == 10);
    int n_epochs = 0;
    CHECK(run.train([&](const quern::event &now) {
        n_epochs += now.is_epoch;
        CHECK(now.is_epoch == (now.test.count("accuracy") == 1));
        return true;
    }));
    const std::int64_t n_steps = run.steps();
    CHECK(n_epochs == 4 && n_steps > 40 && run.evaluate().at("accuracy") > 0.8);
    CHECK(run.memory().held_bytes > 0 && run.pairs().at("model") == "mlp");
    text_of([&] { run.evaluate(QN_VALIDATION); }, QN_ERROR_ARGUMENT);

    quern::run_options other = how;
    other.save.clear();
    quern::run again(quern::model::named("mlp"), quern::read_checkpoint(how.save), other);
    again.resume(how.save);
    CHECK(again.steps() == n_steps && again.evaluate() == run.evaluate());

    quern::predictor opened(how.save);
    quern::predictor predictor = std::move(opened);
    CHECK(predictor.facts().n_outputs == 2 && predictor.names().empty());
    const std::vector<float> outputs = predictor.predict_prepared(quern::span<const float>(made.x.data(), 6));
    CHECK(outputs.size() == 4 && outputs[0] + outputs[1] > 0.999F && outputs[0] + outputs[1] < 1.001F);
    const std::vector<quern::prediction> best = predictor.rank(quern::span<const float>(outputs.data(), 2), 5);
    CHECK(best.size() == 2 && best[0].value >= best[1].value && best[0].index != best[1].index);
    text_of([&] { predictor.predict_prepared(std::vector<float>(4)); }, QN_ERROR_ARGUMENT);
}

// qn_value build(...) of a model of one's own, from C++.
qn_value build(qn_graph *graph, void *, qn_value x, int n_outputs) {
    return qn_linear_layer(graph, "output", x, n_outputs);
}

void try_trainer(const std::string &folder) {
    qn_model mine{};
    mine.name = "straight";
    mine.domain = "points";
    mine.source = "this file";
    mine.input = QN_SHAPE(3);
    mine.n_classes = 2;
    mine.recipe.rate = 0.1;
    mine.build = build;
    qn_trainer_options options = qn_trainer_options_for(&mine);
    options.batch = 40;
    quern::trainer trainer(quern::model::own(mine), options);
    const samples made = make(40);
    double first = 0, last = 0;
    for (int i = 0; i < 50; i++) {
        last = trainer.step(made.x, made.classes).loss;
        first = i == 0 ? last : first;
    }
    CHECK(last < first && trainer.steps() == 50);
    trainer.save(folder + "/mine.safetensors", {{"note", "of C++"}});
    CHECK(quern::read_checkpoint(folder + "/mine.safetensors").at("note") == "of C++");
    quern::trainer other(quern::model::own(mine), options);
    other.load(folder + "/mine.safetensors");
    CHECK(other.steps() == 50 && other.predict(made.x) == trainer.predict(made.x));
    text_of([&] { other.step(quern::span<const float>(made.x.data(), 3), made.classes); }, QN_ERROR_ARGUMENT);
}

void try_image(const std::string &checkpoint) {
    quern::predictor look(checkpoint);
    CHECK(look.names() == (std::vector<std::string>{"dark", "light"}));
    const std::vector<std::uint8_t> pixels(20 * 30 * 3, 230);
    const quern::image shown{pixels, 20, 30, 3};
    const quern::prediction best = look.classify(shown);
    CHECK(best.name == look.names().at(static_cast<std::size_t>(best.index)));
    const std::vector<float> all = look.predict(std::vector<quern::image>{shown, shown});
    CHECK(all.size() == 4 && all[0] == all[2] && all[1] == all[3]);
    text_of([&] { look.classify(quern::image{pixels, 20, 29, 3}); }, QN_ERROR_ARGUMENT);
}

} // namespace

int main(int argc, char **argv) {
    CHECK(argc == 3);
    try_macros();
    try_failures();
    try_run(argv[1]);
    try_trainer(argv[1]);
    try_image(argv[2]);
    std::puts("ok");
    return 0;
}
