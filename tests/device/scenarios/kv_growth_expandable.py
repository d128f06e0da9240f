"""As kv_growth, with segments that the allocator grows in place: enough in one piece does not help against growth."""

import os
import runpy

CAUSE = {"cause": "kv-growth", "owner": "cache"}

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kv_growth.py"), run_name="__main__")
