"""Facts of adapters, of devices nobody chose, of workspaces and of engines that reserve."""

import pytest
from given import HERE, event, facts_of, gib, oom, traceback

from oomdoctor.facts import derive_facts
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence


def start(**options: str):
    return event(EventKind.ENGINE_START, engine="vllm", options=tuple(options.items()))


def test_adapters_by_the_options_that_an_engine_prints():
    facts = facts_of(start(enable_lora="True", max_loras="8", max_lora_rank="256"))
    assert facts.value("engine.lora") is True
    assert (facts.value("engine.lora_slots"), facts.value("engine.lora_rank")) == (8, 256)


def test_adapters_by_the_launch_line():
    facts = facts_of(oom(), command="vllm serve M --enable-lora --max-lora-rank 64 --max-loras 2")
    assert facts.value("engine.lora") is True
    assert (facts.value("engine.lora_slots"), facts.value("engine.lora_rank")) == (2, 64)


@pytest.mark.parametrize(
    "facts",
    [
        facts_of(start(enable_lora="False", max_lora_rank="16")),
        facts_of(start(lora_modules="None", max_lora_rank="16")),
        facts_of(oom(), command="python train.py --enable-lora --max-lora-rank 64"),
    ],
)
def test_adapters_stay_unknown_where_none_are_served(facts):
    assert facts.value("engine.lora") is None
    assert facts.value("engine.lora_rank") is None


def test_an_engine_places_adapters():
    frames = (
        ("/opt/site-packages/vllm/lora/model_manager.py", 300, "_create_lora_modules", "module.create_lora_weights("),
        ("/opt/site-packages/vllm/lora/layers.py", 88, "create_lora_weights", "self.lora_a = torch.zeros("),
    )
    assert facts_of(oom(), traceback(*frames)).value("activity.adapter_weights") is True


@pytest.mark.parametrize(
    "frame",
    [
        ("/opt/site-packages/vllm/lora/layers.py", 300, "apply", "self.punica_wrapper.add_lora_linear("),
        ("/opt/site-packages/peft/tuners/lora/model.py", 9, "load_adapter", "set_peft_model_state_dict("),
        ("train.py", 9, "add_adapter", "model.add_adapter(config)"),
    ],
)
def test_using_or_training_adapters_is_not_placing_them(frame):
    assert facts_of(oom(), traceback(frame)).value("activity.adapter_weights") is None


def restored(call: str):
    return traceback(
        ("main.py", 5, "<module>", call),
        ("/opt/site-packages/torch/serialization.py", 1300, "load", "return _load("),
        ("/opt/site-packages/torch/serialization.py", 400, "_cuda_deserialize", "return obj.cuda(device)"),
    )


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("state = torch.load(path)", True),
        ("state = torch.load(path, map_location='cuda:0')", False),
        ("state = read(path)", None),
    ],
)
def test_a_file_goes_back_where_it_was_saved(call, expected):
    assert facts_of(oom(), restored(call)).value("activity.restores_saved_device") is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py --device cuda:1", 1),
        ("python train.py --device=1", 1),
        ("python train.py --where cuda:3", 3),
        ("python train.py --teacher cuda:0 --student cuda:1", None),
        ("python train.py --gpus 2", None),
        ("python train.py --device cuda", None),
        ("CUDA_VISIBLE_DEVICES=1 python train.py", None),
    ],
)
def test_the_device_that_the_launch_line_names(command, expected):
    assert facts_of(oom(), command=command).value("command.device_index") == expected


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (("/opt/site-packages/torch/nn/modules/conv.py", 456, "_conv_forward", "return F.conv2d(input"), True),
        (("net.py", 5, "forward", "x = F.conv3d(x, self.weight)"), True),
        (("/opt/site-packages/torch/nn/modules/linear.py", 114, "forward", "return F.linear(input"), None),
        (("net.py", 5, "forward", "x = self.conv(x)"), None),
    ],
)
def test_a_convolution_by_its_innermost_frame(frame, expected):
    assert facts_of(oom(), traceback(frame)).value("activity.convolution") is expected


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("VLLM::EngineCore", "VLLM::EngineCore (pid 7)"),
        ("sglang::scheduler_TP0", "sglang::scheduler_TP0 (pid 7)"),
        ("python3", None),
        (None, None),
    ],
)
def test_an_engine_by_the_name_of_its_process(name, found):
    process = DeviceProcess(pid=7, name=name, used_bytes=gib(70))
    reading = DeviceReading(index=0, source=HERE, total_bytes=gib(80), used_bytes=gib(72), processes=(process,))
    facts = derive_facts(Evidence(devices=(reading,)))
    assert facts.value("device.reserving_process", "cuda:0") == found
