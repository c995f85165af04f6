"""A real Kubernetes control plane: etcd, API server, controllers, scheduler. No containers.

TLS and ``Node,RBAC`` are on, so that the RBAC that we ship is what is tested. Data lives in one
folder; ``stop`` and ``start`` again keep it.
"""

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import namespaces
from tests.cluster.processes import Process
from tests.support.certificates import Authority, KeyPair, signing_pair

API_PORT = 6443
ETCD_PORT = 2379
SERVICE_NETWORK = "10.96.0.0/16"
FIRST_SERVICE_ADDRESS = "10.96.0.1"
ISSUER = "https://kubernetes.default.svc"
READY_SECONDS_MAX = 300.0
#: The calls of this namespace's service accounts to the API server are written down.
AUDITED = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """The certificates of all programs: signed once for a run."""

    authority: Authority
    server: KeyPair
    admin: KeyPair
    controllers: KeyPair
    scheduler: KeyPair
    accounts: KeyPair


def make_identities(folder: Path) -> Identities:
    """Sign the certificates of a run."""
    authority = Authority(folder)
    hosts = (
        "127.0.0.1",
        namespaces.HOST_ADDRESS,
        FIRST_SERVICE_ADDRESS,
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    )
    return Identities(
        authority=authority,
        server=authority.sign("apiserver", name="kube-apiserver", hosts=hosts),
        admin=authority.sign("admin", name="admin", organisation="system:masters"),
        controllers=authority.sign("controllers", name="system:kube-controller-manager"),
        scheduler=authority.sign("scheduler", name="system:kube-scheduler"),
        accounts=signing_pair(folder, "accounts"),
    )


class ControlPlane:
    """The four programs, started in order and waited for by what they answer."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self.identities = make_identities(folder / "pki")
        self.url = f"https://{namespaces.HOST_ADDRESS}:{API_PORT}"
        self.kubeconfig = self._write_kubeconfig("admin", self.identities.admin)
        self._running: list[Process] = []

    def start(self) -> None:
        """Start all four; returns when the API server and its default account are ready."""
        self._start_etcd()
        server = self._start_api_server()
        server.until(
            lambda: self._get("/readyz") == b"ok", what="/readyz", seconds=READY_SECONDS_MAX
        )
        self._start_controllers()
        self._start_scheduler()
        server.until(
            lambda: self._get("/api/v1/namespaces/default/serviceaccounts/default"),
            what="the default service account",
            seconds=READY_SECONDS_MAX,
        )

    def stop(self) -> None:
        """Stop all four, the last started first; the data stays."""
        while self._running:
            self._running.pop().stop()

    def _start(self, name: str, *arguments: str) -> Process:
        log = self._folder / "logs" / f"{name}.log"
        process = Process(name, [self._binaries / name, *arguments], log=log)
        self._running.append(process)
        return process

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{ETCD_PORT}", f"http://127.0.0.1:{ETCD_PORT + 1}"
        etcd = self._start(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )
        etcd.until(lambda: urllib.request.urlopen(f"{client}/health").status == 200, what="etcd")

    @property
    def audit(self) -> Path:
        """The file where each call of ``AUDITED`` stands as an object of JSON, in a line."""
        return self._folder / "audit.log"

    def _start_api_server(self) -> Process:
        who = self.identities
        policy = self._folder / "audit-policy.json"
        policy.write_text(json.dumps(_audit_policy()))
        return self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
            "--bind-address=0.0.0.0",
            f"--secure-port={API_PORT}",
            f"--advertise-address={namespaces.HOST_ADDRESS}",
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit}",
            f"--client-ca-file={who.authority.pair.certificate}",
            f"--tls-cert-file={who.server.certificate}",
            f"--tls-private-key-file={who.server.key}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={who.accounts.certificate}",
            f"--service-account-signing-key-file={who.accounts.key}",
        )

    def _start_controllers(self) -> None:
        who = self.identities
        kubeconfig = self._write_kubeconfig("controllers", who.controllers)
        self._start(
            "kube-controller-manager",
            *_component_flags(kubeconfig),
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={who.accounts.key}",
            f"--root-ca-file={who.authority.pair.certificate}",
            f"--cluster-signing-cert-file={who.authority.pair.certificate}",
            f"--cluster-signing-key-file={who.authority.pair.key}",
            "--node-monitor-grace-period=10s",
            "--node-monitor-period=1s",
            "--pvclaimbinder-sync-period=2s",
        )

    def _start_scheduler(self) -> None:
        kubeconfig = self._write_kubeconfig("scheduler", self.identities.scheduler)
        self._start("kube-scheduler", *_component_flags(kubeconfig))

    def _write_kubeconfig(self, user: str, pair: KeyPair) -> Path:
        """Write how a user reaches the API server; JSON is YAML."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "lab",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority": str(self.identities.authority.pair.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate": str(pair.certificate),
                        "client-key": str(pair.key),
                    },
                }
            ],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
            "current-context": "lab",
        }
        path = self._folder / f"{user}.kubeconfig"
        path.write_text(json.dumps(config, indent=1))
        return path

    def tls(self) -> ssl.SSLContext:
        """Give what a client with the administrator's rights needs."""
        who = self.identities
        context = ssl.create_default_context(cafile=who.authority.pair.certificate)
        context.load_cert_chain(who.admin.certificate, who.admin.key)
        return context

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, context=self.tls(), timeout=5) as answer:
            return bytes(answer.read())


def _audit_policy() -> dict[str, object]:
    """Write calls down when they begin to be answered: a watch goes on for long."""
    accounts = [f"system:serviceaccounts:{AUDITED}"]
    rules = [{"level": "Metadata", "userGroups": accounts}, {"level": "None"}]
    kind = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
    return {**kind, "rules": rules, "omitStages": ["RequestReceived", "Panic"]}


def _component_flags(kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
    ]
