"""The emulated CUDA device: torch's CUDA wheel without NVIDIA's libraries, and a stand-in for those."""
