# Completion of quern for bash, made by quern help --completion bash.
_quern() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local command=${COMP_WORDS[1]} options='' words=''
  case "$command" in
    models) options='--input --json --help' ;;
    inspect) options='--input --holdout --validation --seed --strict --html --json --target --task --ignore --categories --header --separator --decimal --dates --classes-from --resize --group --window --stride --window-label --time --force --help' ;;
    train) options='--data --epochs --steps --no-test --no-samples --picture --picture-every --save --no-save --load --power --save-best --early-stop --checkpoint-every --measure --budget-file --memory-pressure --pressure-file --pressure-calm --json --holdout --validation --batch --optimizer --lr --momentum --nesterov --weight-decay --proximal --beta1 --schedule --warmup --schedule-steps --clip-norm --accumulate --freeze --train-only --requires-grad --update --lr-for --lora --head --loss --label-smoothing --class-weights --augment --strict --no-shuffle --input --classes --length --wordpiece --vocabulary --hidden --net --frames --replay --fill --explore --epsilon --update-every --target-every --return-steps --discount --episodes --test-epsilon --timeout --min-count --seed --rules --numerics --device --prefer --cpu-watts --device-watts --idle-watts --foreground --micro-batch --threads --memory --swap --resume --override --target --task --ignore --categories --header --separator --decimal --dates --classes-from --resize --group --window --stride --window-label --time --tune --cores --plan --personalise --personal-words --personal-rate --save-personal --shape --set --follow-links --start --force --help' ;;
    plan) options='--data --max-batch --html --save --load --json --buffers --capacity --seconds --out --cores --compare-cores --machine --measure --power --trace --holdout --validation --batch --optimizer --lr --momentum --nesterov --weight-decay --proximal --beta1 --schedule --warmup --schedule-steps --clip-norm --accumulate --freeze --train-only --requires-grad --update --lr-for --lora --head --loss --label-smoothing --class-weights --augment --strict --no-shuffle --input --classes --length --wordpiece --vocabulary --hidden --net --frames --replay --fill --explore --epsilon --update-every --target-every --return-steps --discount --episodes --test-epsilon --timeout --min-count --seed --rules --numerics --device --prefer --cpu-watts --device-watts --idle-watts --foreground --micro-batch --threads --memory --swap --resume --override --target --task --ignore --categories --header --separator --decimal --dates --classes-from --resize --group --window --stride --window-label --time --shape --set --follow-links --force --help' ;;
    profile) options='--data --steps --epochs --skip --repeat --inference --no-meter --json --html --trace --csv --metrics --interval --sysroot --power --description --holdout --validation --batch --optimizer --lr --momentum --nesterov --weight-decay --proximal --beta1 --schedule --warmup --schedule-steps --clip-norm --accumulate --freeze --train-only --requires-grad --update --lr-for --lora --head --loss --label-smoothing --class-weights --augment --strict --no-shuffle --input --classes --length --wordpiece --vocabulary --hidden --net --frames --replay --fill --explore --epsilon --update-every --target-every --return-steps --discount --episodes --test-epsilon --timeout --min-count --seed --rules --numerics --device --prefer --cpu-watts --device-watts --idle-watts --foreground --micro-batch --threads --memory --swap --resume --override --classes-from --resize --group --window --stride --window-label --time --tune --cores --plan --shape --set --follow-links --force --help' ;;
    study) options='--models --batches --out --quick --steps --seconds --repeat --data --no-drip --memory-limit --threads --retry --only --interval --sysroot --power --description --help' ;;
    evaluate) options='--weights --data --split --holdout --validation --batch --length --loss --rules --episodes --test-epsilon --memory --threads --per-class --confusion --html --most-confused --json --header --separator --decimal --dates --classes-from --resize --group --window --stride --window-label --time --shape --set --follow-links --force --help' ;;
    predict) options='--weights --top --threads --group --time --csv --json --header --separator --decimal --dates --shape --set --follow-links --help' ;;
    sample) options='--weights --data --prompt --context --count --characters --tokens --top-p --top-k --repetition-penalty --stop --temperature --seed --picture --memory --threads --json --shape --set --follow-links --force --help' ;;
    convert) options='--model --map --key --out --input --classes --vocabulary --partial --seed --real --licence --source --show-map --json --force --help' ;;
    pretrained) options='--dir --json --help' ;;
    merge) options='--weights --out --data --load --shape --set --follow-links --force --help' ;;
    import) options='--check --train-only --requires-grad --json --shape --set --follow-links --help' ;;
    tokens) options='--list --json --help' ;;
    export) options='--weights --out --input --classes --numerics --data --samples --with-preparation --outside --shape --set --follow-links --force --help' ;;
    meter) options='--ops --clock --skip --json --interval --sysroot --power --description --html --trace --csv --metrics --force --help' ;;
    devices) options='--sysroot --calibrate --json --help' ;;
    rules) options='--help' ;;
    numerics) options='--help' ;;
    cache) options='--limit --json --help' ;;
    learn) options='--device --days --trace --when --joules --minutes --seed --data --holdout --model --load --drift --start --daily --keep --test --save --threads --log --html --sysroot --old --memory --disk --power --watts --fresh --batch --once --relearn --last --json --force --help' ;;
    federate) options='--model --data --holdout --clients --per-round --rounds --partition --local-epochs --batch --lr --momentum --proximal --drop --server --server-lr --server-momentum --updates --personal --dp-clip --dp-noise --dp-delta --devices --when --network --deadline --pace --target --memory --numerics --evaluate-every --save --resume --threads --seed --html --out --secure --train-only --load --dp-where --wheel --json --force --help' ;;
    split) options='--model --cut --peer --listen --key --devices --memory --once --data --holdout --epochs --batch --lr --momentum --messages --device --peer-device --network --save --resume --threads --seed --out --json --force --help' ;;
    label) options='--known --data --out --target --ignore --categories --missing --skip-bad --follow --background --revise --answers --html --settings --seed --features --speed --nothing-new --threads --splits --samples --drift --json --header --separator --decimal --dates --force --help' ;;
    help) options='--man --completion --settings --help' ;;
    version) options='--help' ;;
  esac
  case "$command $before" in
    'inspect --task') words='auto classification regression labels' ;;
    'inspect --header') words='auto yes no' ;;
    'inspect --separator') words='  ; tab bar' ;;
    'inspect --decimal') words='.  ' ;;
    'inspect --dates') words='dmy mdy' ;;
    'inspect --classes-from') words='top leaf path' ;;
    'inspect --window-label') words='majority last mean same' ;;
    'train --optimizer') words='sgd adam adamw' ;;
    'train --schedule') words='constant step cosine' ;;
    'train --loss') words='auto cross-entropy bce mse l1 huber none' ;;
    'train --augment') words='crop flip' ;;
    'train --net') words='conv mlp' ;;
    'train --prefer') words='time energy balanced' ;;
    'train --task') words='auto classification regression labels' ;;
    'train --header') words='auto yes no' ;;
    'train --separator') words='  ; tab bar' ;;
    'train --decimal') words='.  ' ;;
    'train --dates') words='dmy mdy' ;;
    'train --classes-from') words='top leaf path' ;;
    'train --window-label') words='majority last mean same' ;;
    'train --tune') words='off quick full' ;;
    'plan --cores') words='all auto' ;;
    'plan --optimizer') words='sgd adam adamw' ;;
    'plan --schedule') words='constant step cosine' ;;
    'plan --loss') words='auto cross-entropy bce mse l1 huber none' ;;
    'plan --augment') words='crop flip' ;;
    'plan --net') words='conv mlp' ;;
    'plan --prefer') words='time energy balanced' ;;
    'plan --task') words='auto classification regression labels' ;;
    'plan --header') words='auto yes no' ;;
    'plan --separator') words='  ; tab bar' ;;
    'plan --decimal') words='.  ' ;;
    'plan --dates') words='dmy mdy' ;;
    'plan --classes-from') words='top leaf path' ;;
    'plan --window-label') words='majority last mean same' ;;
    'profile --optimizer') words='sgd adam adamw' ;;
    'profile --schedule') words='constant step cosine' ;;
    'profile --loss') words='auto cross-entropy bce mse l1 huber none' ;;
    'profile --augment') words='crop flip' ;;
    'profile --net') words='conv mlp' ;;
    'profile --prefer') words='time energy balanced' ;;
    'profile --classes-from') words='top leaf path' ;;
    'profile --window-label') words='majority last mean same' ;;
    'profile --tune') words='off quick full' ;;
    'evaluate --split') words='train test validation all' ;;
    'evaluate --loss') words='auto cross-entropy bce mse l1 huber none' ;;
    'evaluate --header') words='auto yes no' ;;
    'evaluate --separator') words='  ; tab bar' ;;
    'evaluate --decimal') words='.  ' ;;
    'evaluate --dates') words='dmy mdy' ;;
    'evaluate --classes-from') words='top leaf path' ;;
    'evaluate --window-label') words='majority last mean same' ;;
    'predict --header') words='auto yes no' ;;
    'predict --separator') words='  ; tab bar' ;;
    'predict --decimal') words='.  ' ;;
    'predict --dates') words='dmy mdy' ;;
    'convert --real') words='f32 f64' ;;
    'meter --clock') words='realtime monotonic boottime' ;;
    'federate --server') words='average momentum adam yogi' ;;
    'federate --dp-where') words='server client' ;;
    'split --messages') words='float int8' ;;
    'label --missing') words='refuse median' ;;
    'label --header') words='auto yes no' ;;
    'label --separator') words='  ; tab bar' ;;
    'label --decimal') words='.  ' ;;
    'label --dates') words='dmy mdy' ;;
    'help --completion') words='bash zsh fish' ;;
    'models models') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
    'inspect inspect') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
    'train train') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
    'plan plan') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
    'profile profile') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
    'evaluate evaluate') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
    'predict predict') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
    'sample sample') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
    'merge merge') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
    'export export') words='mlp lenet5 lenet-relu alexnet vgg-small vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet mobilenet-v1 mobilenet-v2 efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 googlenet inception-v3 xception densenet40 densenet100 char-cnn char-lstm next-word seq2seq dcgan dqn bert-base bert-tiny' ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words='models inspect train plan profile study evaluate predict sample convert pretrained merge import tokens export meter devices rules numerics cache learn federate split label help version'; fi
  case "$current" in -*) words=$options ;; esac
  # Without words of its own, a place takes files.
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _quern quern
