"""Settings of the allocator, and what torch 2.13.0+cpu said to each (`torch._C._accelerator_setAllocatorSettings`)."""

ACCEPTED = """\
max_split_size_mb:128
max_split_size_mb:20
max_split_size_mb:20.9
max_split_size_mb:-1
max_split_size_mb:+128
max_split_size_mb:128MB
max_split_size_mb:200;
max_split_size_mb:1 28
max_split_size_mb:128,
max_split_size_mb: 128
 max_split_size_mb : 128\x20
max_split_size_mb:18446744073709551615
max_split_size_mb:128, expandable_segments:True
expandable_segments:True
expandable_segments:False
expandable_segments:True ,
garbage_collection_threshold:0.8
garbage_collection_threshold:.8
garbage_collection_threshold:8e-1
garbage_collection_threshold:0.5x
garbage_collection_threshold:0x0.8
roundup_power2_divisions:1
roundup_power2_divisions:4.5
roundup_power2_divisions:[256:1,512:2,1024:4,>:8]
roundup_power2_divisions:[256:1,512:2,]
roundup_power2_divisions:[>:8,256:2]
roundup_power2_divisions:[256:0]
roundup_power2_divisions:[]
roundup_power2_divisions:[256:1],max_split_size_mb:128
pinned_use_background_threads:True
max_non_split_rounding_mb:20
large_segment_size_mb:11
max_split_size_mb:15,large_segment_size_mb:11
""".splitlines()

REFUSED = """\
max_split_size_mb
max_split_size_mb:
max_split_size_mb:19
max_split_size_mb:1.5
max_split_size_mb:1e3
max_split_size_mb:0x80
max_split_size_mb:banana
max_split_size_mb:[128]
max_split_size_mb:99999999999999999999999
max_split_size_mb=128
max_split_size_mb:128:3
max_split_size_mb:128;expandable_segments:True
expandable_segments
expandable_segments:
expandable_segments:true
expandable_segments:1
expandable_segments:True;
expandable_segments:True:False
expandable_segments:[True]
expandable_segments:True,,
expandable_segments:True,:
expandable_segments:True,garbage_collection_threshold
garbage_collection_threshold:0
garbage_collection_threshold:1
garbage_collection_threshold:1.0
garbage_collection_threshold:1.5
garbage_collection_threshold:-0.5
garbage_collection_threshold:0,8
garbage_collection_threshold:80%
garbage_collection_threshold:nan
garbage_collection_threshold:inf
garbage_collection_threshold:banana
garbage_collection_threshold:0.8 expandable_segments:True
roundup_power2_divisions:
roundup_power2_divisions:0
roundup_power2_divisions:3
roundup_power2_divisions:-1
roundup_power2_divisions:256:1
roundup_power2_divisions:[256]
roundup_power2_divisions:[>]
roundup_power2_divisions:[:1]
roundup_power2_divisions:[256:1
roundup_power2_divisions:[256:x]
roundup_power2_divisions:[x:1]
roundup_power2_divisions:[256:3]
roundup_power2_divisions:[>:3]
roundup_power2_divisions:[300:1]
roundup_power2_divisions:[0:1]
roundup_power2_divisions:[256:1 512:2]
roundup_power2_divisions:[256:1,,512:2]
roundup_power2_divisions:[256:1]max_split_size_mb:128
roundup_power2_divisions:[256:1,max_split_size_mb:128
pinned_use_background_threads:
pinned_use_background_threads:1
max_non_split_rounding_mb:5
max_non_split_rounding_mb:x
large_segment_size_mb:10
large_segment_size_mb:x
large_segment_size_mb:32,max_split_size_mb:25
throw_on_cudamalloc_oom:
backend:
,
::
True
128
""".splitlines()

CARELESS = """\
max_split_size_mb,128
max_split_size_mb:128:expandable_segments:True
roundup_power2_divisions:[256:1]]
""".splitlines()
"""Accepted too, with other signs than a colon and a comma where these stand."""

OF_CUDA_BUILDS = {
    "release_lock_on_cudamalloc:True": True,
    "release_lock_on_cudamalloc:banana": False,
    "release_lock_on_cudamalloc:1": False,
    "pinned_use_cuda_host_register:False": True,
    "pinned_use_cuda_host_register:yes": False,
    "pinned_num_register_threads:8": True,
    "pinned_num_register_threads:3": False,
    "pinned_num_register_threads:0": False,
    "pinned_num_register_threads:256": False,
    "pinned_num_register_threads:x": False,
    "graph_capture_record_stream_reuse:True": True,
    "graph_capture_record_stream_reuse:maybe": False,
    "per_process_memory_fraction:0": True,
    "per_process_memory_fraction:0.5": True,
    "per_process_memory_fraction:1": True,
    "per_process_memory_fraction:1.5": False,
    "per_process_memory_fraction:-0.1": False,
    "per_process_memory_fraction:x": False,
    "throw_on_cudamalloc_oom:True": True,
    "throw_on_cudamalloc_oom:x": False,
    "pinned_reserve_segment_size_mb:10": True,
    "pinned_reserve_segment_size_mb:-1": True,
    "pinned_reserve_segment_size_mb:0": False,
    "pinned_reserve_segment_size_mb:x": False,
    "pinned_free_catch_all:True": True,
    "pinned_free_catch_all:x": False,
    "pinned_max_round_threshold_mb:0": True,
    "pinned_max_round_threshold_mb:x": False,
    "pinned_max_cached_size_mb:5": True,
    "pinned_max_cached_size_mb:x": False,
    "backend:native": True,
    "backend:cudaMallocAsync": True,
    "backend:banana": False,
}
"""What torch 2.14.1+cu130 said to each (2.9.1+cu128 the same of those that it has); a build without CUDA reads none."""
