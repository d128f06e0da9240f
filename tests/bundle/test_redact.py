import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.bundle.redact import MASK, StreamMasker, is_secret_name, mask_command, mask_environment, mask_text

SECRETS = [
    ("HF_TOKEN={}", "hf_abcdefghijklmnopqrstuvwxyz012345"),
    ("found {} in the cache", "hf_abcdefghijklmnopqrstuvwxyz012345"),
    ("key: {}", "sk-proj-abcdefghijklmnopqrstuv"),
    ("--api-key {}", "anything-at-all"),
    ("--api-key={}", "anything-at-all"),
    ("Authorization: Bearer {}", "abcd.efgh"),
    ("'authorization': 'Basic {}'", "Zm9vOmJhcg=="),
    ("https://bob:{}@host/x", "pass-word"),
    ("postgres://user:{}@db/name", "pass-word"),
    ('{{"password": "{}"}}', "hunter22"),
    ("client_secret: {}", "abcdefgh"),
    ("wrong key password={}", "hunter22"),
    ("aws_secret_access_key = {}", "abc/def+ghi"),
    ("WANDB_API_KEY={}", "0123456789abcdef0123456789abcdef01234567"),
    ("{}", "AKIAIOSFODNN7EXAMPLE"),
    ("{}", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
    ("{}", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"),
    ("https://x/y?token={}&x=1", "abcdefgh"),
    ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA"),
]

INNOCENT = [
    "max_tokens=4096 eos_token='</s>' bos_token: 12345 num_tokens: 55555",
    "--max-num-batched-tokens 8192 --tokenizer meta-llama/Llama-3.1-8B",
    "Maximum concurrency for 8,192 tokens per request: 12.34x",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
    "key=value2 keys: abcdefgh num_key_value_heads: 12345678",
    "see https://pytorch.org/docs/stable/notes/cuda.html#environment-variables",
    "git clone git@github.com:vllm-project/vllm.git",
    '  File "/usr/lib/python3.11/secrets.py", line 10, in token_bytes',
    "next_token: 12345 image_token_id=151655 token_ids=[1234, 5678]",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_secrets_are_masked(text, secret):
    masked = mask_text(text.format(secret))
    assert secret not in masked
    assert MASK in masked


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_no_secret_stays(text):
    assert mask_text(text) == text


def test_lines_stay_in_place():
    text = "a\n-----BEGIN PRIVATE KEY-----\nxxx\n-----END PRIVATE KEY-----\nTraceback: password=hunter22\nend\n"
    assert mask_text(text).splitlines()[0] == "a"
    assert mask_text(text).endswith("Traceback: password=<masked>\nend\n")


def test_a_command_line():
    command = ["serve", "--api-key", "foo", "--hf-token=zzzz", "--max-tokens", "100", "--token", "--verbose"]
    expected = ("serve", "--api-key", MASK, f"--hf-token={MASK}", "--max-tokens", "100", "--token", "--verbose")
    assert mask_command(command) == expected


def test_the_environment_is_an_allow_list():
    environment = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "VLLM_API_KEY": "secret",
        "OPENAI_API_KEY": "secret",
        "HF_TOKEN": "secret",
        "MY_OWN": "secret",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "RAY_ADDRESS": "ray://me:secret@head:10001",
        "TF_GPU_ALLOCATOR": "cuda_malloc_async",
        "TF_VAR_database": "what Terraform is to use",
        "TF_CLI_CONFIG_FILE": "/home/me/.terraformrc",
    }
    assert mask_environment(environment) == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "RAY_ADDRESS": "ray://<masked>@head:10001",
        "TF_GPU_ALLOCATOR": "cuda_malloc_async",
        "VLLM_API_KEY": MASK,
    }


@pytest.mark.parametrize(("name", "secret"), [("HF_TOKEN", True), ("MAX_TOKENS", False), ("TOKENIZERS_X", False)])
def test_names(name, secret):
    assert is_secret_name(name) is secret


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_masking_piece_by_piece_loses_nothing(data, cuts):
    masker = StreamMasker()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [masker.feed(data[start:stop]) for start, stop in pairwise(places)]
    whole = StreamMasker()
    assert b"".join([*pieces, masker.flush()]) == whole.feed(data) + whole.flush()


def test_a_secret_cut_in_two_by_reading_is_masked():
    masker = StreamMasker()
    out = masker.feed(b"line\nHF_TOKEN=hf_abcdefgh") + masker.feed(b"ijklmnopqrstuvwxyz\n") + masker.flush()
    assert out == b"line\nHF_TOKEN=<masked>\n"


def test_a_private_key_that_comes_in_pieces_is_masked():
    masker = StreamMasker()
    out = b"".join(masker.feed(line) for line in (b"-----BEGIN PRIVATE KEY-----\n", b"MIIE\n", b"AAAA\n"))
    out += masker.feed(b"-----END PRIVATE KEY-----\nafter\n")
    assert b"MIIE" not in out
    assert b"AAAA" not in out
    assert out.endswith(b"after\n")


@pytest.mark.parametrize("piece", ["eyJ", "-", "://a", "secret", "--token ", "xtoken:", "key=", "bearer ", "a:b@://"])
def test_time_is_linear(piece):
    def seconds(count):
        begun = time.process_time()
        mask_text(piece * count)
        return time.process_time() - begun

    assert seconds(60_000) < max(20 * seconds(12_000), 0.3)
