import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { expectations } from '../../dev/charts/expected.ts'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { rendered, skip as withoutHelm } from '../support/charts/chart-words.ts'
import { type GoModule, goModule } from '../support/go-module.ts'
import { Kubectl } from '../support/kubectl.ts'
import { assets } from '../support/kubectl-stack.ts'
import { findObject, objectsOf } from '../support/manifests.ts'
import { Processes } from '../support/processes.ts'

/**
 * All that the charts make, taken by an API server that has the published kinds of the Gateway API and of the
 * Prometheus Operator: no field that they do not know, no value that they refuse.
 */

const gateway = (version: string, sum: string) => ({ path: 'sigs.k8s.io/gateway-api', version, sum })
const operator = (version: string, sum: string) => ({
  path: 'github.com/prometheus-operator/prometheus-operator',
  version,
  sum,
})

/** the first whose routes have timeouts, and a late one; of the operator an early and a late one */
const releases: readonly (readonly [GoModule, GoModule])[] = [
  [
    gateway('v1.2.1', 'h1:fZZ/+RyRb+Y5tGkwxFKuYuSRQHu9dZtbjenblleOLHM='),
    operator('v0.60.1', 'h1:CWMMS7LZb6ksIMUEecvQ8kjLkqvzqN8rh2TQdT9pSUI='),
  ],
  [
    gateway('v1.6.3', 'h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc='),
    operator('v0.92.1', 'h1:rHWuFo6SVya4FBSCNg2DCzyc4xAv54zk3eDTzp5mQZc='),
  ],
]
const routes = ['httproutes', 'grpcroutes'].map((kind) => `config/crd/standard/gateway.networking.k8s.io_${kind}.yaml`)
const monitors = ['servicemonitors', 'podmonitors', 'prometheusrules'].map(
  (kind) => `example/prometheus-operator-crd/monitoring.coreos.com_${kind}.yaml`,
)

const missing = [...missingAssets(assets, 'api'), ...missingAssets(assets, 'all').filter((name) => name === 'kubectl')]
const withoutCluster = missing.length > 0 && `needs ${missing.join(', ')}`
/** of files with values none has rules and dashboard */
const allOn = ['metrics.prometheusRule.enabled=true', 'metrics.dashboard.enabled=true']

async function renderings(): Promise<ReadonlyMap<string, readonly KubernetesObject[]>> {
  const found = new Map<string, KubernetesObject[]>()
  for (const { chart, values, rendered: file } of expectations()) {
    const name = `${chart}/${basename(values)}`
    found.set(name, objectsOf(readFileSync(file, 'utf8'), file))
    if (chart !== 'kas') continue
    const apis = ['monitoring.coreos.com/v1', 'gateway.networking.k8s.io/v1']
    const text = await rendered({ chart, values: [values], set: allOn, apis })
    found.set(`${name}, with rules and dashboard`, objectsOf(text, name))
  }
  return found
}

const modules = withoutHelm || withoutCluster ? [] : releases.flat().map(goModule)
const lacks = modules.flatMap((found) => ('lacks' in found ? [found.lacks] : []))
const skip = withoutHelm || withoutCluster || (lacks.length > 0 && lacks.join('; '))

t.test('charts beside the published kinds of others', { skip, timeout: 240_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: controlPlane.kubeconfig })
  const objects = await renderings()
  const namespaces = new Set([...objects.values()].flat().flatMap(({ metadata }) => metadata.namespace ?? []))
  for (const name of namespaces) await kubectl.ok(['create', 'namespace', name])

  /** What the API server would say, which makes nothing of it. @returns what it refuses */
  const tried = async (t: Test, name: string, items: readonly KubernetesObject[]): Promise<string> => {
    const file = join(processes.folder, 'objects.json')
    await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
    const { code, stdout, stderr } = await kubectl.run(['apply', '--dry-run=server', '--validate=strict', '-f', file])
    const taken = stdout.toString().match(/ created \(server dry run\)$/gm)?.length ?? 0
    if (code === 0) t.equal(taken, items.length, `${name}: each of ${items.length} objects`)
    return code === 0 ? '' : stderr
  }

  for (const [i, [gateway, operator]] of releases.entries()) {
    await t.test(`Gateway API ${gateway.version}, Prometheus Operator ${operator.version}`, async (t) => {
      const [own, operators] = modules.slice(2 * i, 2 * i + 2).map((found) => ('folder' in found ? found.folder : ''))
      const files = [
        ...routes.map((file) => join(own ?? '', file)),
        ...monitors.map((file) => join(operators ?? '', file)),
      ]
      const named = files.flatMap((file) => ['-f', file])
      await kubectl.ok(['apply', '--server-side', '--force-conflicts', ...named])
      await kubectl.ok(['wait', '--for=condition=Established', ...named])
      for (const [name, items] of objects) t.equal(await tried(t, name, items), '', name)

      const fronts = objects.get('kas/fronts.yaml') ?? []
      const route = structuredClone(findObject(fronts, 'HTTPRoute', 'kas'))
      route.spec.rules[0].timeouts.requests = '0s'
      t.match(await tried(t, 'a mistyped field', [route]), /unknown field "(?:spec\.rules\[0\]\.timeouts\.)?requests"/)
      const rule = structuredClone(
        findObject(objects.get('kas/least.yaml, with rules and dashboard') ?? [], 'PrometheusRule', 'kas'),
      )
      delete rule.spec.groups[0].rules[0].expr
      t.match(await tried(t, 'an alert without its expression', [rule]), /expr/)
    })
  }
})
