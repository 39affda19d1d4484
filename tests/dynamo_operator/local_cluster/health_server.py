"""A program that serves gRPC health, made with Google's own library.

    python health_server.py HOST:PORT READY_FILE

The server as a whole is healthy; service `slow` is once READY_FILE exists, service `ill` never.
With READY_FILE "-" there is no health service at all.
"""

import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

address, ready_file = sys.argv[1:]
server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
servicer = health.HealthServicer()
servicer.set("ill", NOT_SERVING)
servicer.set("slow", NOT_SERVING)
if ready_file != "-":
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
server.add_insecure_port(address)
server.start()
signal.signal(signal.SIGTERM, lambda *_: server.stop(0))
sys.stdout.write("listening\n")
sys.stdout.flush()
while server.wait_for_termination(0.05):
    servicer.set("slow", SERVING if Path(ready_file).exists() else NOT_SERVING)
    time.sleep(0.01)
