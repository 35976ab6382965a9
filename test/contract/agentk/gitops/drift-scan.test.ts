import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { inventoryLabel } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import { Phase, PhaseSchema } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { patience } from '../../../support/slowness.ts'
import { askForDrift } from './drift-questions.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { deployment, Ground, keyOf, skip } from './ground.ts'

/** Calls of a restart and of a scan, as the API server counts them, and changes that only a scan finds. */

/** objects of the source, in ten kinds; their number changes nothing but the time: KAS_SCAN_OBJECTS=1000 */
const count = Number(process.env.KAS_SCAN_OBJECTS ?? 200)
/** rate of agentk's calls, and calls at once after a rest */
const calls = { perSecond: 150, burst: 32 }
/** calls after a restart where nothing has changed: for drift, and for health */
const maxRestartCalls = 25 + 40
/** 1,000 objects at 150 calls a second take 7 s. ms */
const syncTimeoutMs = 60_000
/** calls, and lines of the log, that a failure shows */
const lastCalls = 40
const source = '42-501'
const rbac = 'rbac.authorization.k8s.io'
const things = 'drift-scan.example.com'

type Shape = readonly [kind: string, apiVersion: string, rest: (name: string) => object]
const pods = (app: string) => {
  const { selector, template } = deployment(app).spec as Record<string, object>
  return { selector, template }
}
const shapes: readonly Shape[] = [
  ['ConfigMap', 'v1', (name) => ({ data: { value: name } })],
  ['Secret', 'v1', (name) => ({ stringData: { password: name } })],
  ['ServiceAccount', 'v1', () => ({})],
  [
    'Service',
    'v1',
    (app) => ({ spec: { selector: { app }, ports: ['a', 'b'].map((name, i) => ({ name, port: i + 80 })) } }),
  ],
  ['Role', `${rbac}/v1`, () => ({ rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get'] }] })],
  ['RoleBinding', `${rbac}/v1`, (name) => ({ roleRef: { apiGroup: rbac, kind: 'Role', name }, subjects: [] })],
  ['Deployment', 'apps/v1', (name) => ({ spec: { replicas: 1, ...pods(name) } })],
  ['StatefulSet', 'apps/v1', (name) => ({ spec: { serviceName: name, ...pods(name) } })],
  ['DaemonSet', 'apps/v1', (name) => ({ spec: pods(name) })],
  ['Thing', `${things}/v1`, (name) => ({ spec: { stays: name, ...(name === 'one-0' && { goes: name }) } })],
]
const files = Object.fromEntries(
  shapes.map(([kind, apiVersion, rest]) => {
    const names = Array.from({ length: count / shapes.length }, (_, i) => `one-${i}`)
    const objects = names.map((name) => ({ apiVersion, kind, metadata: { name }, ...rest(name) }))
    return [`${kind}.yaml`, objects.map((object) => JSON.stringify(object)).join('\n---\n')]
  }),
)

interface AuditEvent {
  readonly auditID: string
  readonly verb: string
  readonly userAgent?: string
  readonly requestURI: string
}

t.test('a restart and a scan', { skip, timeout: 180_000 }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'drift-scan-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const auditLogFile = join(folder, 'audit.log')
  const controlPlane = new ControlPlane({ assets: process.env.KUBEBUILDER_ASSETS ?? '', parts: 'api', auditLogFile })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const ground = await Ground.start(t, controlPlane)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const end = async () => (await stat(auditLogFile)).size
  /**
   * Returns requests that began since that end of the log, each once: method and path. The API server's own do not count;
   * the end of an earlier watch is no new one.
   */
  const callsSince = async (from: number): Promise<string[]> => {
    const log = await readFile(auditLogFile)
    const eventsIn = (part: Buffer) => {
      const lines = part.toString().split('\n').slice(0, -1)
      return new Map(lines.map((line) => JSON.parse(line) as AuditEvent).map((event) => [event.auditID, event]))
    }
    const [earlier, events] = [eventsIn(log.subarray(0, from)), eventsIn(log.subarray(from))]
    const ours = [...events.values()].filter(
      ({ auditID, userAgent = '' }) => !earlier.has(auditID) && !userAgent.startsWith('kube-apiserver'),
    )
    return ours.map(({ verb, requestURI }) => `${verb} ${decodeURIComponent(requestURI)}`)
  }
  /** True for a write of an object of the source: those in the namespace of agentk are its own, and reviews store nothing. */
  const isWrite = (call: string) => !/^(?:get|list|watch) |dryRun=All|\/namespaces\/gitops\/|accessreviews/.test(call)
  const isWatch = (call: string) => call.startsWith('watch ') && call.includes(inventoryLabel)

  const define = (properties: object) =>
    ground.apply(
      keyOf('CustomResourceDefinition', `things.${things}`, '', 'apiextensions.k8s.io'),
      {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name: `things.${things}` },
        spec: {
          group: things,
          scope: 'Namespaced',
          names: { plural: 'things', kind: 'Thing' },
          versions: [
            {
              name: 'v1',
              served: true,
              storage: true,
              schema: { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties } } } },
            },
          ],
        },
      },
      'setup',
    )
  const [stays, goes] = [{ type: 'string' }, { type: 'string' }]
  await define({ stays, goes })
  const thing = keyOf('Thing', 'probe', 'shop', things)
  await eventually(async () => {
    await ground.readKinds()
    return ground.kinds.find(thing) !== undefined
  })

  const project = new ProjectKas(501n)
  const state = () => project.states.findLast((one) => one.source === source)
  const start = async () => {
    project.states.length = 0
    const block = { id: 'platform/shop', default_namespace: 'shop', drift: { mode: 'report' } } as const
    const side = await startGitops(t, ground, project, { manifest_projects: [block] })
    const isSynced = () => state()?.phase === Phase.SYNCED && state()?.commit === project.commit
    await eventually(isSynced, { timeoutMs: syncTimeoutMs }).catch((cause) => {
      const { phase = Phase.PHASE_UNSPECIFIED, problem = '' } = state() ?? {}
      throw new Error(`${PhaseSchema.value[phase]?.name} ${problem} ${JSON.stringify(side.lines)}`, { cause })
    })
    return side
  }
  /**
   * Waits until all watches have begun, and then for a change: once it is known, no call of the start is to come. The
   * second start finds that `marker` owns the field, with Git's value.
   *
   * @returns the calls since that end of the log, without those for the change
   */
  const followed = async (from: number): Promise<string[]> => {
    const watched = async () => (await callsSince(from)).filter(isWatch).map((call) => call.split('?')[0])
    // more than once where the API server has ended a watch: a definition has changed
    await eventually(async () => new Set(await watched()).size === shapes.length)
    const marked = keyOf('ConfigMap', 'one-1')
    await ground.merge(marked, { data: { value: 'changed' } }, 'marker')
    await eventually(() => state()?.drifted.length === 1).catch(async (cause) => {
      const shown = JSON.stringify(state(), (_, one) => (typeof one === 'bigint' ? String(one) : one))
      const last = (await callsSince(from)).slice(-lastCalls)
      throw new Error([shown, ...last, ...side.lines.slice(-lastCalls)].join('\n'), { cause })
    })
    const all = await callsSince(from)
    await ground.merge(marked, { data: { value: 'one-1' } }, 'marker')
    await eventually(() => state()?.drifted.length === 0)
    return all.slice(
      0,
      all.findIndex((call) => call.includes('fieldManager=marker')),
    )
  }
  project.push(files)
  let side = await start()

  await t.test('a restart with nothing changed writes nothing, in few calls', async (t) => {
    await side.stop()
    const from = await end()
    side = await start()
    await eventually(() => state()?.health?.unread === 0)
    const asked = await followed(from)
    t.strictSame(asked.filter(isWrite), [])
    t.ok(asked.length <= maxRestartCalls, `${asked.length} calls:\n${asked.join('\n')}`)
    t.comment(`${asked.length} calls, for ${count} objects of ${shapes.length} kinds`)
  })

  await t.test('a scan finds what no metadata show', async (t) => {
    await side.stop()
    const service = keyOf('Service', 'one-0')
    const live = await ground.get(service)
    live.spec.ports.reverse()
    const replaced = await ground.client.json('PUT', `${ground.path(service)}?fieldManager=kubectl-replace`, live)
    t.equal(replaced.status, 200)
    const map = keyOf('ConfigMap', 'one-0')
    const { managedFields } = (await ground.get(map)).metadata
    await ground.merge(map, { data: { value: 'forged' } }, 'forger')
    await ground.merge(map, { metadata: { managedFields } }, 'forger')
    await define({ stays })
    await eventually(async () => {
      const spec = { apiVersion: `${things}/v1`, kind: 'Thing', metadata: { name: 'probe' }, spec: { goes: 'x' } }
      const path = `${ground.path(thing)}?fieldManager=probe&dryRun=All`
      const options = { contentType: 'application/apply-patch+yaml' }
      return (await ground.client.json('PATCH', path, spec, undefined, options)).status !== 200
    })
    const stopped = await end()
    side = await start()
    await followed(stopped)
    t.match(state(), { drifted: [], counts: { drifted: 0 } })

    const [from, began] = [await end(), performance.now()]
    const { objects, end: ended } = await askForDrift(side.methods(), { source, scan: true })
    const seconds = (performance.now() - began) / 1000
    const found = Object.fromEntries(objects.map(({ object, field }) => [object?.key?.kind, { object, field }]))
    t.strictSame(Object.keys(found).toSorted(), ['ConfigMap', 'Service', 'Thing'])
    t.match(found, {
      ConfigMap: {
        object: { key: { name: 'one-0' }, kind: 'drifted', manager: '' },
        field: [{ path: '.data.value', before: '"one-0"', after: '"forged"' }],
      },
      Service: {
        object: { key: { name: 'one-0' }, kind: 'drifted', manager: '' },
        field: [{ path: '.spec.ports', kind: 'reordered' }],
      },
      Thing: { object: { key: { name: 'one-0' }, kind: 'not_compared' } },
    })
    t.match(ended, { objects: count, compared: count, problem: '' })

    const asked = await callsSince(from)
    t.strictSame(asked.filter(isWrite), [])
    t.ok(asked.length >= count, 'each object is asked about')
    t.ok(asked.length <= calls.burst + calls.perSecond * seconds + 1, `${asked.length} calls in ${seconds} s`)
    t.ok(seconds * 1000 <= patience(10_000), `${seconds} s`)
    const rate = Math.round(asked.length / seconds)
    t.comment(`${asked.length} calls in ${seconds.toFixed(2)} s: ${rate} a second, for ${count} objects`)
  })
})
