#!/usr/bin/env bash
# Renders the chart by helm into packaging/helm/rendered, which the tests read, so that they need no helm. HELM names the tool, if it is not on
# the PATH. KUBERNETES_VALIDATE (pip install kubernetes-validate) checks the result against the schemas of Kubernetes, if it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
helm=${HELM:-helm}
chart=packaging/helm/weir
out=${1:-packaging/helm/rendered}
command -v "$helm" >/dev/null || { echo "helm.sh: $helm was not found; install Helm (helm.sh/docs/intro/install) or set HELM" >&2; exit 1; }
mkdir -p "$out"

"$helm" lint --quiet "$chart" --set secret.existing=weir >&2
"$helm" template demo "$chart" --namespace weir --set secret.existing=weir >"$out/default.yaml"
"$helm" template demo "$chart" --namespace weir --values packaging/helm/everything.yaml >"$out/everything.yaml"
# Values that must be refused, and why.
refused() {
    local why=$1 message
    shift
    ! message=$("$helm" template demo "$chart" "$@" 2>&1) || { echo "helm.sh: not refused: $*" >&2; exit 1; }
    [[ $message == *"$why"* ]] || { echo "helm.sh: refused for another reason: $message" >&2; exit 1; }
}
refused 'set secret.existing, or secret.create.DATABASE_URL'
refused 'set secret.create.REDIS_URL, or redis.enabled=false' --set secret.create.DATABASE_URL=postgresql://db
refused "at '/replicas'" --set secret.existing=weir --set replicas=many
refused "additional properties 'replica' not allowed" --set secret.existing=weir --set replica=3
(cd "$chart" && find . -type f | LC_ALL=C sort | xargs sha256sum) | sha256sum | cut -d' ' -f1 >"$out/chart.sha256"
if command -v "${KUBERNETES_VALIDATE:-kubernetes-validate}" >/dev/null; then
    "${KUBERNETES_VALIDATE:-kubernetes-validate}" --quiet "$out"/*.yaml
fi
