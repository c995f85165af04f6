"""Where a person's command looks: the API server and the namespace, as kubectl takes them.

``--kubeconfig`` goes before ``KUBECONFIG``, ``--context`` before the file's current context, and
``-n`` before the context's namespace. Writes carry the name of the plugin as their field manager,
never the operator's: each keeps to its own fields.
"""

from dataclasses import dataclass
from typing import Final

import kubernetes

from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, Json, Kubernetes
from zonekeeper.operator.kubernetes.api_server import ApiServer, NoApiServerError
from zonekeeper.placement.base import misnamed
from zonekeeper.placement.base.troubles import Refusal

MANAGER: Final = "kubectl-zonekeeper"
NAMESPACE: Final = "default"


class NoSuchResourceError(Refusal):
    """There is no such resource in the namespace; the message names those that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonPlace:
    """What a command line says of the place."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None

    def opened(self) -> tuple[ApiServer, str]:
        """Give the API server and the namespace; raises ``NoApiServerError``."""
        configuration = kubernetes.client.Configuration()
        try:
            kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call] # has none
                config_file=self.kubeconfig,
                context=self.context,
                client_configuration=configuration,
            )
            contexts, current = kubernetes.config.list_kube_config_contexts(  # type: ignore[no-untyped-call] # has none
                config_file=self.kubeconfig
            )
        except kubernetes.config.ConfigException as error:
            raise NoApiServerError(
                f"the kubeconfig names no API server ({error}): give --kubeconfig and --context, "
                "or set KUBECONFIG"
            ) from error
        configuration.retries = False
        chosen = next((one for one in contexts if one["name"] == self.context), current)
        said = (chosen or {}).get("context", {}).get("namespace")
        client = kubernetes.client.ApiClient(configuration)
        return ApiServer(client, manager=MANAGER), self.namespace or said or NAMESPACE


async def resource(api: Kubernetes, namespace: str, name: str) -> Json:
    """Read a resource that is there; raises ``NoSuchResourceError``."""
    found = await api.get(BOOKIE_CLUSTERS, namespace, name)
    if found is None:
        known = [one["metadata"]["name"] for one in await api.list(BOOKIE_CLUSTERS, namespace)]
        there = misnamed.there_is_no(BOOKIE_CLUSTERS.name, name, known)
        raise NoSuchResourceError(f"namespace {namespace}: {there}")
    return found
