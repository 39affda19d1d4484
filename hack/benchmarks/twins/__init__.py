"""One controller, written for three frameworks; `hack.benchmarks.peers` runs them side by side.

For every Widget (bench.test/v1) in BENCH_NAMESPACE each makes a ConfigMap of the same name whose
data is the Widget's `spec.size`, and sets `status.size`: a create and a patch of the status. Each
speaks to the cluster of KUBECONFIG and prints `settled` once BENCH_WIDGETS of them are as wanted.
With BENCH_CACHE=ConfigMap or Pod it only keeps all of that kind, and prints `settled` a second
after they are there.
"""
