import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { expectations } from '../../dev/charts/expected.ts'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { rendered, skip as withoutHelm } from '../support/charts/chart-words.ts'
import { eventually } from '../support/eventually.ts'
import { type GoModule, goModule } from '../support/go-module.ts'
import { Kubectl } from '../support/kubectl.ts'
import { assets } from '../support/kubectl-stack.ts'
import { findObject, objectsOf } from '../support/manifests.ts'
import { collectionOf } from '../support/nodes/node-cluster.ts'
import { Processes } from '../support/processes.ts'

/**
 * All objects of the charts, checked by an API server that has the published kinds of the Gateway API and of the
 * Prometheus Operator. It must know each field and accept each value.
 */

const gateway = (version: string, sum: string) => ({ path: 'sigs.k8s.io/gateway-api', version, sum })
const operator = (version: string, sum: string) => ({
  path: 'github.com/prometheus-operator/prometheus-operator',
  version,
  sum,
})

/**
 * for each project an early and a late release; the early one of the Gateway API is the first whose routes have
 * timeouts
 */
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
const routes = ['httproutes', 'grpcroutes']
const monitors = ['servicemonitors', 'podmonitors', 'prometheusrules']
const served = [
  ...routes.map((kind) => `/apis/gateway.networking.k8s.io/v1/${kind}`),
  ...monitors.map((kind) => `/apis/monitoring.coreos.com/v1/${kind}`),
]

const missing = [...missingAssets(assets, 'api'), ...missingAssets(assets, 'all').filter((name) => name === 'kubectl')]
const withoutCluster = missing.length > 0 && `needs ${missing.join(', ')}`
/** no file of values turns on rules and dashboard */
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
  const { admin } = controlPlane
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: controlPlane.kubeconfig })
  const objects = await renderings()
  const namespaces = new Set([...objects.values()].flat().flatMap(({ metadata }) => metadata.namespace ?? []))
  for (const name of namespaces) await admin.create('/api/v1/namespaces', { metadata: { name } })

  /** Creates the objects as a dry run. @returns the API server's refusals */
  const tried = async (items: readonly KubernetesObject[]): Promise<string> => {
    const refused: string[] = []
    for (const body of items) {
      const path = `${collectionOf(body)}?dryRun=All&fieldValidation=Strict`
      const answer = await admin.request(path, { method: 'POST', body })
      if (answer.status !== 201) refused.push(JSON.parse(answer.body).message)
    }
    return refused.join('\n')
  }

  for (const [i, [gateway, operator]] of releases.entries()) {
    await t.test(`Gateway API ${gateway.version}, Prometheus Operator ${operator.version}`, async (t) => {
      const [own, operators] = modules.slice(2 * i, 2 * i + 2).map((found) => ('folder' in found ? found.folder : ''))
      const files = [
        ...routes.map((kind) => join(own ?? '', `config/crd/standard/gateway.networking.k8s.io_${kind}.yaml`)),
        ...monitors.map((kind) =>
          join(operators ?? '', `example/prometheus-operator-crd/monitoring.coreos.com_${kind}.yaml`),
        ),
      ]
      const named = files.flatMap((file) => ['-f', file])
      await kubectl.ok(['create', ...named])
      await kubectl.ok(['wait', '--for=condition=Established', ...named])
      for (const path of served) await eventually(() => admin.get(path))
      for (const [name, items] of objects) t.strictSame([items.length > 0, await tried(items)], [true, ''], name)

      const fronts = objects.get('kas/fronts.yaml') ?? []
      const route = structuredClone(findObject(fronts, 'HTTPRoute', 'kas'))
      route.spec.rules[0].timeouts.requests = '0s'
      t.match(await tried([route]), /unknown field "spec\.rules\[0\]\.timeouts\.requests"/)
      const rule = structuredClone(
        findObject(objects.get('kas/least.yaml, with rules and dashboard') ?? [], 'PrometheusRule', 'kas'),
      )
      delete rule.spec.groups[0].rules[0].expr
      t.match(await tried([rule]), /expr/)
      // the next release's kinds cannot be installed before these are deleted
      await kubectl.ok(['delete', ...named])
    })
  }
})
