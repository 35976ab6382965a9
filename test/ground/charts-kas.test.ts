import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import t from 'tap'
import { expectations } from '../../dev/charts/expected.ts'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { graceVariable } from '../../src/kas/cli/doctor/graces.ts'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import type { KasConfig } from '../../src/kas/config/kas-schema.ts'
import { stopPatienceMs } from '../../src/kas/config/stop-patience.ts'
import { rendered, skip } from '../support/charts/chart-words.ts'
import { objectsOf } from '../support/manifests.ts'

/** Output of the chart kas agrees with the programs. */

/** ms; least margin of the pod's grace period over the stop time of kas, for example for a slow node */
const roomMs = 10_000
const environment = { POD_NAME: 'kas-0', POD_NAMESPACE: 'kas', KAS_OPS_SOCKET: '/tmp/kas.sock' }

interface Installation {
  readonly text: string
  readonly config: KasConfig
  readonly warnings: readonly unknown[]
  readonly template: KubernetesObject
  readonly objects: readonly KubernetesObject[]
}

function readInstallation(objects: readonly KubernetesObject[]): Installation {
  const only = (kind: string) => objects.find((object) => object.kind === kind) as KubernetesObject
  const text = only('ConfigMap').data['config.yaml'] as string
  const { config, warnings } = parseKasConfig('config.yaml', text, environment)
  return { text, config, warnings, template: only('StatefulSet').spec.template, objects }
}

const ofFiles = expectations().filter(({ chart }) => chart === 'kas')
const installations = new Map(
  ofFiles.map((one) => [
    basename(one.values, '.yaml'),
    readInstallation(objectsOf(readFileSync(one.rendered, 'utf8'), one.rendered)),
  ]),
)
t.equal(installations.size, 5)

for (const [name, { text, config, warnings, template, objects }] of installations) {
  t.test(`${name}: the configuration is as kas wants it`, async (t) => {
    t.strictSame(
      warnings.filter((warning) => !/redis/.test(JSON.stringify(warning))),
      [],
    )
    const headless = objects.filter(({ spec }) => spec?.publishNotReadyAddresses && spec.ports.length === 2)
    t.strictSame(
      headless.map(({ metadata }) => ({ service: metadata.name })),
      [config.cluster.discovery.kubernetes],
    )
  })

  t.test(`${name}: a pod has longer than kas takes to stop, and no more than a minute longer`, async (t) => {
    const spareMs = template.spec.terminationGracePeriodSeconds * 1000 - stopPatienceMs(config)
    t.ok(spareMs >= roomMs && spareMs < 60_000, `${spareMs} ms`)
    const told = template.spec.containers[0].env.find((one: KubernetesObject) => one.name === graceVariable)
    t.equal(told?.value, String(template.spec.terminationGracePeriodSeconds), 'doctor is told the same')
  })

  t.test(`${name}: each file of the configuration is in the volume`, async (t) => {
    const [{ projected }] = template.spec.volumes
    const paths = projected.sources.flatMap(({ secret }: KubernetesObject) =>
      (secret?.items ?? []).map(({ path }: { path: string }) => path),
    )
    if (JSON.stringify(projected).includes('"kas-tls"')) paths.push('tls.crt', 'tls.key')
    const named = [...new Set([...JSON.stringify(config).matchAll(/"\/etc\/kas\/([^"]+)"/g)].map(([, file]) => file))]
    t.strictSame(named.sort(), paths.sort())
  })

  t.test(`${name}: pods know by which configuration they run`, async (t) => {
    t.equal(template.metadata.annotations['checksum/config'], hash('sha256', text.replace(/\n$/, '')))
  })
}

t.test('a changed configuration changes the pods, and nothing else does', { skip }, async (t) => {
  const values = [ofFiles.find((one) => basename(one.values) === 'least.yaml')?.values as string]
  const podsOf = async (...set: string[]) => {
    const text = await rendered({ chart: 'kas', values, set })
    return readInstallation(objectsOf(text, 'rendered')).template
  }
  const [before, again, replicas, level] = await Promise.all([
    podsOf(),
    podsOf(),
    podsOf('replicas=5'),
    podsOf('customConfig.observability.logging.level=debug'),
  ])
  t.strictSame(before, again)
  t.strictSame(before, replicas, 'another number of them')
  t.not(before.metadata.annotations['checksum/config'], level.metadata.annotations['checksum/config'])
})

t.test("a grace beyond the pod's: the pod's is longer then", { skip }, async (t) => {
  const values = [ofFiles.find((one) => basename(one.values) === 'least.yaml')?.values as string]
  const key = 'customConfig.agent.kubernetes_api.listen.shutdown_grace_period'
  const text = await rendered({ chart: 'kas', values, set: [`${key}=2h`] })
  const { config, template } = readInstallation(objectsOf(text, 'rendered'))
  t.ok(stopPatienceMs(config) > 7_200_000)
  t.ok(template.spec.terminationGracePeriodSeconds * 1000 >= stopPatienceMs(config) + roomMs)
})

t.test('an autoscaler takes one replica at a time, no sooner than it takes to leave', async (t) => {
  const { objects, template } = installations.get('fronts') as Installation
  const { behavior } = objects.find(({ kind }) => kind === 'HorizontalPodAutoscaler')?.spec ?? {}
  /** maxima of the Kubernetes API, seconds */
  const maxima = { window: 3600, period: 1800 }
  const { terminationGracePeriodSeconds: grace } = template.spec
  const period = Math.min(grace, maxima.period)
  t.strictSame(behavior.scaleDown, {
    stabilizationWindowSeconds: Math.min(grace, maxima.window),
    policies: [{ type: 'Pods', value: 1, periodSeconds: period }],
  })
  t.notOk(
    'replicas' in (objects.find(({ kind }) => kind === 'StatefulSet')?.spec ?? {}),
    'which an upgrade would reset',
  )
})
