"""Python programs that run in the network of a container, or inside it."""

DESCRIBE_IMAGE = """
import importlib.util, json, os, shutil, subprocess, sys
from importlib.metadata import distributions

LIST_INSTALLERS = "import importlib.util; print(*filter(importlib.util.find_spec, ('pip', 'ensurepip')))"
status = dict(line.split(":\\t", 1) for line in open("/proc/1/status").read().splitlines())
tools = ("pip", "pip3", "uv", "cc", "gcc", "c++", "clang", "make")

def list_installers(python):
    return subprocess.run([python, "-c", LIST_INSTALLERS], stdout=subprocess.PIPE, text=True, check=True).stdout.split()

print(json.dumps({
    "command": open("/proc/1/cmdline").read().split("\\0"),
    "uids": status["Uid"].split(),
    "capabilities": status["CapEff"],
    "tools": list(filter(shutil.which, tools)),
    "installers": list_installers(sys.executable),
    "installers_of_the_base": list_installers(os.path.realpath(sys.executable)),
    "has_pip_conf": os.path.exists("/etc/pip.conf"),
    "installed": [(one.name, one.version) for one in distributions()],
    "bill": open("/opt/tensor-reshape/sbom.cdx.json").read(),
}))
"""

READ_STATUS = """
import json, os
from tensor_reshape.server.process.resources import find_cgroup_limit

fields = dict(line.split(":\\t", 1) for line in open("/proc/1/status").read().splitlines() if ":\\t" in line)
is_read_only = bool(os.statvfs("/").f_flag & os.ST_RDONLY)
print(json.dumps({**fields, "is_read_only": is_read_only, "memory": find_cgroup_limit()}))
"""

PROBE = """
import sys, grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}", [("grpc.enable_http_proxy", 0)]) as channel:
    stub = health_pb2_grpc.HealthStub(channel)
    response = stub.Check(health_pb2.HealthCheckRequest(service=sys.argv[3]), timeout=float(sys.argv[2]))
print(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))
"""
"""Checks the health as the kubelet does: without TLS, for the whole server."""

FLOOD = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
import grpc
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

CLIENTS, SECONDS, SIZE = 16, 4, 2**24
DATA = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[SIZE // 4], data=bytes(SIZE))
SHAPE = reshape_pb2.TargetShape(items=[-1, 4])
REQUEST = reshape_pb2.StaticReshapeRequest(data=DATA, shape=SHAPE, special_zero=True).SerializeToString()
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]

def call(_):
    answered, end = 0, time.monotonic() + SECONDS
    with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}", OPTIONS) as channel:
        while time.monotonic() < end:
            try:
                channel.unary_unary("/tensor_reshape.v1.ReshapeService/StaticReshape")(REQUEST, timeout=60)
            except grpc.RpcError as error:  # on a busy machine a client may stall, and the server then ends its call
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
            else:
                answered += 1
    return answered

with ThreadPoolExecutor(CLIENTS) as pool:
    print(sum(pool.map(call, range(CLIENTS))))
"""
"""Clients with a connection each send the largest messages for some seconds. It prints the number of responses."""

COUNT_HITS = """
from pathlib import Path

events, failures = Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.failcnt")  # cgroup 2, and 1
lines = events.read_text().splitlines() if events.exists() else ["max " + failures.read_text()]
print(*(count for name, count in map(str.split, lines) if name == "max"))
"""
"""Prints how often its container has reached its memory limit."""

IDENTIFY = """
import sys, grpc
from pathlib import Path
from tensor_reshape.client import CallTimeoutError, Client, UnavailableError

folder, port = Path(sys.argv[1]), sys.argv[2]
authority, key, chain = ((folder / f"{name}.pem").read_bytes() for name in ("ca", "client-key", "client"))
for pair, timeout in (((key, chain), 60), ((), 2)):
    with Client(f"localhost:{port}", credentials=grpc.ssl_channel_credentials(authority, *pair)) as client:
        try:
            print(*client.infer_shape([2, 3], [6], special_zero=False, timeout=timeout).known)
        except (UnavailableError, CallTimeoutError):
            print("rejected")
"""
"""Makes a call with a certificate, then without one."""

SCRAPE = """
import sys, urllib.request

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(opener.open(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=60).read().decode())
"""
"""Scrapes the metrics as Prometheus does."""
