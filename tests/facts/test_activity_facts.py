"""activity.*: phases and operations from frames, and the order of an engine's lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from given import event, facts_of, gib, oom, traceback

from oomdoctor.model.events import EventKind, LogEvent

TORCH = "/env/lib/python3.11/site-packages/torch/"


@pytest.mark.parametrize(
    ("frames", "operation", "phase"),
    [
        (
            [
                ("train.py", 29, "train", "optimizer.step()"),
                (TORCH + "optim/adam.py", 77, "step", "state['exp_avg_sq'] = torch.zeros_like(p)"),
            ],
            "optimizer-state",
            "optimizer-step",
        ),
        (
            [
                ("train.py", 9, "train", "loss.backward()"),
                (TORCH + "autograd/__init__.py", 266, "backward", "run_backward("),
            ],
            "gradient",
            "backward",
        ),
        (
            [
                ("train.py", 9, "train", "loss = F.cross_entropy(model(x), y)"),
                ("net.py", 4, "forward", "return self.fc2(h)"),
                (TORCH + "nn/modules/linear.py", 114, "forward", "return F.linear(input, self.weight)"),
            ],
            "activation",
            "loss",
        ),
        (
            [
                ("train.py", 9, "train", "loss = F.cross_entropy(logits, y)"),
                (TORCH + "nn/functional.py", 3029, "cross_entropy", "return torch._C._nn.cross_entropy_loss("),
            ],
            "logits",
            "loss",
        ),
        ([("net.py", 12, "attention", "scores = q @ k.transpose(-1, -2)")], "attention-scores", None),
        (
            [
                ("chat.py", 3, "main", "model.generate(x)"),
                (
                    "/env/site-packages/transformers/cache_utils.py",
                    300,
                    "update",
                    "torch.cat([self.key_cache[i], k], dim=-2)",
                ),
            ],
            "kv-append",
            None,
        ),
        (
            [
                ("a.py", 1, "main", "model = Net().cuda()"),
                (TORCH + "nn/modules/linear.py", 109, "__init__", "torch.empty((n, m))"),
            ],
            "weights",
            "load",
        ),
        ([("a.py", 1, "main", "x = x.to('cuda')")], "copy-to-device", None),
        (
            [("a.py", 1, "evaluate", "out = model(x)"), ("net.py", 4, "forward", "return self.fc2(h)")],
            "activation",
            "evaluation",
        ),
        (
            [("s.py", 1, "run", "self.visual(pixel_values)"), ("vit.py", 4, "forward", "return self.fc2(h)")],
            "encoder",
            "forward",
        ),
        ([("s.py", 1, "save", "torch.save(model.state_dict(), path)")], "checkpoint", "checkpoint"),
        ([("a.py", 1, "main", "work()")], None, None),
    ],
)
def test_frames_name_operation_and_phase(frames, operation: str | None, phase: str | None):
    facts = facts_of(traceback(*frames), oom(requested_bytes=gib(1)))
    assert facts.value("activity.operation") == operation
    assert facts.value("activity.phase") == phase


def test_a_part_of_the_model_that_is_being_made_computes_nothing():
    made = ("vllm/layers/vocab_parallel_embedding.py", 7, "__init__", "super().__init__(rows, columns)")
    inside = ("vllm/models/net.py", 5, "__init__", "self.lm_head = Head(config.vocab_size)")
    facts = facts_of(traceback(("vllm/loader.py", 3, "_initialize_model", "return Model(config)"), inside, made), oom())
    assert (facts.value("activity.operation"), facts.value("activity.phase")) == ("weights", "load")
    used = ("vllm/models/net.py", 50, "compute_logits", "return self.lm_head(hidden)")
    assert facts_of(traceback(used), oom()).value("activity.operation") == "logits"


def test_a_workers_line_may_come_after_its_own_failure():
    def phase(edge: str, pid: int | None) -> LogEvent:
        told = event(EventKind.ENGINE_PHASE, engine="vllm", phase="graph-capture", edge=edge)
        return replace(told, pid=pid)

    failed = event(EventKind.ACCELERATOR_ERROR, library="cuda", code="out of memory", masks_oom=True)
    assert facts_of(failed, phase("begin", 7)).value("activity.phase") == "graph-capture"
    assert facts_of(failed, phase("begin", None)).value("activity.phase") is None
    started = event(EventKind.ENGINE_START, engine="vllm")
    assert facts_of(failed, started, phase("begin", 7)).value("activity.phase") is None
    serving = event(EventKind.ENGINE_PHASE, engine="vllm", phase="serving", edge="told")
    assert facts_of(oom(), serving).value("activity.phase") == "serving"


def test_the_users_frame_is_the_innermost_outside_packages():
    facts = facts_of(
        traceback(
            ("train.py", 29, "train", "loss.backward()"), (TORCH + "_tensor.py", 522, "backward", "autograd.backward(")
        )
    )
    assert facts.value("activity.frame") == "train.py:29 in train: loss.backward()"
    assert facts.value("activity.exception") == "torch.OutOfMemoryError"


def test_a_data_loader_s_sampler_is_not_the_engine_s():
    facts = facts_of(traceback((TORCH + "utils/data/sampler.py", 1, "__iter__", "for i in self.sampler:")))
    assert facts.value("activity.operation") is None


def test_only_a_memory_error_during_a_memory_error_is_a_retry():
    first, again = traceback(("a.py", 1, "main", "step()")), traceback(("a.py", 2, "main", "step()"), chained=True)
    assert facts_of(first, oom(), again).value("activity.in_exception_handler") is True
    other = traceback(("a.py", 2, "main", "x['y']"), error="KeyError", chained=True)
    assert facts_of(first, oom(), other).value("activity.in_exception_handler") is None
    assert facts_of(first, oom()).value("activity.in_exception_handler") is None


@pytest.mark.parametrize(
    ("lines", "phase"),
    [
        ([event(EventKind.ENGINE_START, engine="vllm")], "load"),
        ([event(EventKind.ENGINE_WEIGHTS, weights_bytes=gib(14))], "profile"),
        ([event(EventKind.ENGINE_KV_AVAILABLE, kv_bytes=gib(2))], "kv-allocation"),
        ([event(EventKind.ENGINE_PHASE, phase="graph-capture", edge="begin")], "graph-capture"),
        ([event(EventKind.ENGINE_PHASE, phase="graph-capture", edge="end")], "warm-up"),
        ([event(EventKind.ENGINE_LOAD, running=8)], "serving"),
    ],
)
def test_the_last_engine_line_before_the_failure_names_the_phase(lines, phase: str):
    assert facts_of(*lines, oom(requested_bytes=gib(1))).value("activity.phase") == phase


def test_lines_after_the_failure_do_not_count():
    assert (
        facts_of(oom(requested_bytes=gib(1)), event(EventKind.ENGINE_LOAD, running=8)).value("activity.phase") is None
    )


def test_the_stack_is_believed_before_the_order_of_lines():
    encoder = traceback(("m.py", 1, "forward", "self.visual(pixels)"))
    facts = facts_of(event(EventKind.ENGINE_PHASE, phase="graph-capture", edge="end"), encoder, oom())
    assert (facts.value("activity.operation"), facts.value("activity.phase")) == ("encoder", "forward")


def test_autograd_is_known_only_where_the_frames_say_so():
    assert facts_of(traceback(("a.py", 1, "f", "model(x)"))).value("activity.autograd_on") is None
    assert facts_of(traceback(("a.py", 1, "f", "loss.backward()"))).value("activity.autograd_on") is True
    assert facts_of(traceback(("t.py", 1, "f", "with torch.no_grad():"))).value("activity.autograd_on") is False


@pytest.mark.parametrize(
    ("frame", "recorded"),
    [
        ((TORCH + "utils/_contextlib.py", 115, "decorate_context", "return func(*args, **kwargs)"), False),
        (
            ("/env/site-packages/transformers/trainer.py", 3900, "evaluation_loop", "loss = self.prediction_step("),
            False,
        ),
        (("eval.py", 10, "evaluate", "out = model(x)"), None),
    ],
)
def test_evaluation_by_a_trainer_or_a_decorator_records_no_gradients(frame, recorded: bool | None):
    assert facts_of(traceback(frame), oom()).value("activity.autograd_on") is recorded


@pytest.mark.parametrize(
    ("function", "named"),
    [
        ("evaluate", True),
        ("validation_step", True),
        ("run_validation", True),
        ("val_epoch", True),
        ("test_model", True),
        ("evaluate_polynomial_basis", False),
        ("interval", False),
        ("latest", False),
    ],
)
def test_a_function_that_evaluates_is_named_by_its_name(function: str, named: bool) -> None:
    facts = facts_of(traceback(("/srv/run.py", 12, function, "out = model(x)")), oom())
    assert facts.value("activity.evaluation") == (f"{function}() (run.py:12)" if named else None)


@pytest.mark.parametrize(
    ("frame", "operation"),
    [
        (("net.py", 3, "attention", 'scores = torch.einsum("bqhd,bkhd->bhqk", q, k)'), "attention-scores"),
        (("net.py", 3, "cross_attn", "weights = (a @ b).softmax(-1)"), "attention-scores"),
        (("net.py", 3, "attend", "x = self.out(y)"), None),
        (("cache.py", 3, "__init__", "self.k_cache.append(torch.zeros(shape, device=device))"), "kv-pool"),
        (("serve.py", 3, "allocate_kv_cache", "return [torch.empty(s) for s in shapes]"), "kv-pool"),
        (("gpt.py", 3, "forward", "k, v = torch.cat((pk, k), dim=2), torch.cat((pv, v), dim=2)"), "kv-append"),
        (("gpt.py", 3, "forward", "x = torch.cat((x, skip), dim=1)"), "activation"),
        (("chat.py", 3, "step", "self.cache[i] = torch.cat([self.cache[i], new])"), None),
        (("load.py", 3, "place", "self.weights.apply(lambda w: w.cuda(0))"), "weights"),
        (("run.py", 3, "main", "net = net.to(device)"), "weights"),
        (("run.py", 3, "main", "model.to(device)"), "weights"),
        (("run.py", 3, "main", "x = x.to(device)"), "copy-to-device"),
        (("run.py", 3, "main", "text_encoder = text_encoder.cuda()"), "weights"),
        (("run.py", 3, "main", "model_ema.to(device)"), "weights"),
        (("run.py", 3, "main", "model_inputs = model_inputs.to(device)"), "copy-to-device"),
        (("run.py", 3, "main", "encoder_hidden_states = encoder_hidden_states.to(device)"), "copy-to-device"),
        (
            (r"C:\venv\lib\site-packages\torch\serialization.py", 3, "_save", "zip_file.write_record(name)"),
            "checkpoint",
        ),
        (("m.py", 3, "make_attn_bias", "bias = bias.float()"), "attention"),
        (("m.py", 3, "step", "out = model(ids, attention_mask=mask)"), None),
    ],
)
def test_what_a_line_makes(frame: tuple[str, int, str, str], operation: str | None) -> None:
    assert facts_of(traceback(frame), oom()).value("activity.operation") == operation


@pytest.mark.parametrize(
    ("node", "operation"),
    [("train/Adam/mul_3", "optimizer-state"), ("net/gradients/AddN_2", "gradient"), ("net/conv1/Conv2D", None)],
)
def test_what_a_node_of_a_graph_does(node: str, operation: str | None) -> None:
    assert facts_of(oom(node=node)).value("activity.operation") == operation


def test_the_step_that_a_worker_names() -> None:
    facts = facts_of(oom(), event(EventKind.ENGINE_STEP_FAILED, engine="vllm", step="load_model"))
    assert facts.value("activity.phase") == "load"
    assert facts.value("activity.operation") == "weights"
    profiled = facts_of(oom(), event(EventKind.ENGINE_STEP_FAILED, step="determine_num_available_blocks"))
    assert profiled.value("activity.phase") == "profile"


@pytest.mark.parametrize(
    ("frame", "phase"),
    [
        (("run.py", 3, "main", "gan_generator = gan_generator.cuda()"), "load"),
        (("/env/site-packages/accelerate/accelerator.py", 912, "prepare_model", "m = m.to(self.device)"), "load"),
        (("run.py", 3, "step", "batch = batch.to(device)"), None),
    ],
)
def test_moving_a_whole_model_is_loading_it(frame: tuple[str, int, str, str], phase: str | None) -> None:
    assert facts_of(traceback(frame), oom()).value("activity.phase") == phase


def test_a_sampler_s_node_of_a_workflow_computes() -> None:
    step = event(EventKind.ENGINE_STEP_FAILED, step="SamplerCustom")
    assert facts_of(oom(), step).value("activity.operation") == "activation"


def test_fused_attention_writes_no_scores() -> None:
    fused = traceback(("net.py", 3, "attend", "return F.scaled_dot_product_attention(q, k, v)"))
    assert facts_of(fused, oom()).value("activity.operation") == "attention"
    written = traceback(("net.py", 3, "attend", "scores = q @ k.transpose(-1, -2)"))
    assert facts_of(written, oom()).value("activity.operation") == "attention-scores"


def test_special_places_of_the_stack():
    hook = ("/env/site-packages/accelerate/hooks.py", 720, "pre_forward", "self.hook.init_hook(module)")
    assert facts_of(traceback(hook)).value("activity.moves_offloaded") is True
    gather = (TORCH + "nn/parallel/data_parallel.py", 190, "gather", "return gather(outputs, device)")
    assert facts_of(traceback(gather)).value("activity.data_parallel") is True
    full = (TORCH + "distributed/fsdp/_state_dict_utils.py", 303, "_full_pre_state_dict_hook", "_common_unshard(")
    assert facts_of(traceback(full)).value("activity.gathers_full_state") is True


@pytest.mark.parametrize(
    ("files", "caller"),
    [
        (["train.py", "/x/site-packages/torch/nn/functional.py"], "own"),
        (["train.py", "/x/site-packages/transformers/models/a.py", "/x/site-packages/torch/nn/f.py"], "transformers"),
        (["/x/site-packages/torch/nn/functional.py"], None),
        (["/usr/lib/python3.11/runpy.py"], None),
    ],
)
def test_whose_code_called_torch(files, caller):
    frames = [(file, 1, "f", "") for file in files]
    assert facts_of(traceback(*frames)).value("activity.caller") == caller


@pytest.mark.parametrize(
    ("file", "uses"),
    [
        ("/v/site-packages/transformers/trainer.py", True),
        ("/v/lib/python3.11/site-packages/trl/trainer/sft_trainer.py", True),
        ("/v/site-packages/transformers/models/llama/modeling_llama.py", False),
        ("/srv/my_transformers/trainers.py", False),
    ],
)
def test_options_of_the_trainer_are_there_only_where_it_runs(file: str, uses: bool) -> None:
    assert facts_of(oom(), traceback((file, 1, "step", "loss"))).value("activity.uses_trainer") is uses
    assert facts_of(oom()).value("activity.uses_trainer") is None


@pytest.mark.parametrize("sentence", ["** model tiny could not be loaded", "Failed to load model"])
def test_a_program_that_says_it_was_loading(sentence):
    facts = facts_of(oom(requested_bytes=gib(1), wrapped_by=sentence))
    assert facts.value("activity.phase") == "load"
    assert facts.value("activity.operation") == "weights"


def test_an_engine_that_could_not_wake_up():
    failed = event(EventKind.ENGINE_BUFFER_FAILED, engine="vllm", purpose="unknown", pool="sleep", fatal=True)
    assert facts_of(failed).value("engine.wake_failed") is None
    assert facts_of(replace(failed, fields={**failed.fields, "wakes": True})).value("engine.wake_failed") is True


@pytest.mark.parametrize(
    ("node", "operation"),
    [("VAEDecode", "decoder"), ("VAEDecodeTiled", "decoder"), ("MyVideoDecode", "decoder"), ("MySampler", None)],
)
def test_the_node_of_a_workflow_that_failed(node, operation):
    assert facts_of(oom(node=node)).value("activity.operation") == operation


def test_outputs_brought_to_full_precision_are_logits():
    frames = [
        ("module.py", 9, "forward", "outputs = float16_to_fp32(outputs)"),
        ("module.py", 3, "up", "val = val.float()"),
    ]
    facts = facts_of(traceback(*frames), oom())
    assert facts.value("activity.operation") == "logits"


@pytest.mark.parametrize(("function", "phase"), [("init", "load"), ("__init__", "load"), ("generate", None)])
def test_an_engine_whose_constructor_reads_the_model(function, phase):
    failed = event(EventKind.DEVICE_OOM, backend="ctranslate2")
    ended = traceback(("faster/transcribe.py", 12, function, ""), error="RuntimeError", message="CUDA failed")
    assert facts_of(ended, failed).value("activity.phase") == phase


def test_a_bias_added_to_attention_scores_is_of_their_size():
    frames = [("arch.py", 9, "forward", "attn = attn + relative_position_bias.unsqueeze(0)")]
    assert facts_of(traceback(*frames), oom()).value("activity.operation") == "attention-scores"


def test_a_step_of_a_built_engine_is_of_serving():
    failed = event(EventKind.ENGINE_BUFFER_FAILED, engine="tensorrt-llm", purpose="runtime", fatal=True)
    assert facts_of(failed).value("activity.phase") == "serving"


@pytest.mark.parametrize(
    ("caller", "operation"),
    [
        ("video = vae.decode(latents).sample", "decoder"),
        ("latents = vae.encode(video).latent_dist", "encoder"),
        ("loss.backward()", "gradient"),
    ],
)
def test_which_half_of_an_autoencoder_its_callers_tell(caller, operation):
    inner = ("/env/diffusers/models/autoencoders/autoencoder_kl.py", 79, "forward", "return self.conv(hidden_states)")
    frames = [("make.py", 9, "main", caller), inner] if operation != "gradient" else [("t.py", 9, "train", caller)]
    assert facts_of(traceback(*frames), oom()).value("activity.operation") == operation


def test_log_probabilities_in_a_samplers_file_are_logits():
    frames = [("/env/vllm/v1/sample/sampler.py", 9, "compute_logprobs", "return logits.log_softmax(dim=-1)")]
    assert facts_of(traceback(*frames), oom()).value("activity.operation") == "logits"


@pytest.mark.parametrize(("graphs", "phase"), [(106 << 20, "serving"), (0, None)])
def test_a_step_of_vllm_that_failed_after_its_graphs_were_captured(graphs, phase):
    wrapped = "OutOfMemoryError('Error in model execution (input dumped to /tmp/input.pkl)"
    failed = event(EventKind.DEVICE_OOM, wrapped_by=wrapped, private_pool_bytes=graphs)
    assert facts_of(failed).value("activity.phase") == phase
