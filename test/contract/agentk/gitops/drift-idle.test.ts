import t, { type Test } from 'tap'
import { missingAssets } from '../../../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { createServiceAccount } from '../../../../dev/control-plane/service-account.ts'
import { servedVersions } from '../../../../src/agentk/cluster/discovery.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { settleMs } from '../../../../src/agentk/modules/gitops/sources/source-runner.ts'
import { apiVersionOf, parseApiVersion } from '../../../../src/kubernetes/kind.ts'
import { textAt } from '../../../../src/kubernetes/object.ts'
import { type Clock, systemClock } from '../../../../src/lib/clock.ts'
import { delay } from '../../../../src/lib/signals.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { apiClient } from '../../../support/api-client.ts'
import { type AuditedCall, AuditLog } from '../../../support/audit-log.ts'
import { eventually } from '../../../support/eventually.ts'
import { externalMetricsObjects, startExternalMetrics } from '../../../support/external-metrics.ts'
import { Kubectl } from '../../../support/kubectl.ts'
import { Processes } from '../../../support/processes.ts'
import { askForDrift } from './drift-questions.ts'
import {
  autoscaler,
  crew,
  deploymentOf,
  everyKind,
  kindsNamespace as main,
  statefulSetOf,
  unkeptKinds,
} from './every-kind.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf } from './ground.ts'
import { IdleWriters } from './idle-writers.ts'
import { type Mutation, startMutatingWebhook } from './mutating-webhook.ts'

/**
 * An idle time of a cluster: nobody changes what Git sets, while controllers, autoscalers, webhooks and other tools work
 * on the same objects. agentk reports no drift, sends no dry run, and writes nothing. All calls are counted at the API
 * server. KAS_IDLE_SECONDS sets the time: 120 or 3600 show more.
 */

const idleSeconds = Number(process.env.KAS_IDLE_SECONDS ?? 20)
/** time between two values of the metrics, and so between two scalings. ms */
const metricMs = 4000
const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'all')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const timeoutMs = 60_000

/** A clock whose timers of two minutes wait for the test: terms are settled at its word. */
class SettlingClock implements Clock {
  readonly #waiting = new Set<() => void>()

  now(): number {
    return systemClock.now()
  }

  after(ms: number, action: () => void): () => void {
    if (ms !== settleMs) return systemClock.after(ms, action)
    this.#waiting.add(action)
    return () => this.#waiting.delete(action)
  }

  settle(): void {
    for (const action of this.#waiting) action()
    this.#waiting.clear()
  }
}

const account = { namespace: 'gitops', name: 'agentk' }
const modes = { correct: main, report: 'idle-report', none: 'idle-none' } as const
type Mode = keyof typeof modes

const web = deploymentOf('web', { replicas: 1 }, { labels: { team: 'shop' } })
const scaled = [
  deploymentOf('scaled', { replicas: 2 }),
  deploymentOf('unset'),
  statefulSetOf('scaled-set', { replicas: 3 }),
  crew('scaled-crew', 4),
]
const nameOf = (object: ObjectTree) => textAt(object, 'metadata.name')

/** Webhooks that are there before the source, each with the Deployment that it changes. */
const hooks: Readonly<Record<string, Mutation>> = {
  'hooked-image': ({ spec }) =>
    spec.template.spec.containers[0].image.startsWith('mirror/')
      ? []
      : [{ op: 'replace', path: '/spec/template/spec/containers/0/image', value: 'mirror/nginx:1' }],
  'hooked-label': ({ metadata }) => (metadata.labels?.team ? [{ op: 'remove', path: '/metadata/labels/team' }] : []),
  'hooked-container': ({ spec }) =>
    spec.template.spec.containers.length > 1
      ? []
      : [{ op: 'add', path: '/spec/template/spec/containers/-', value: { name: 'side', image: 'side:1' } }],
  // a field and an annotation that Git does not set
  'hooked-anew': ({ metadata }) => [
    { op: 'add', path: '/metadata/annotations', value: { ...metadata.annotations, anew: String(Math.random()) } },
    { op: 'add', path: '/spec/progressDeadlineSeconds', value: 600 + Math.floor(Math.random() * 600) },
  ],
  // an annotation that Git sets
  'hooked-stamp': () => [{ op: 'add', path: '/metadata/annotations/stamp', value: String(Math.random()) }],
}
/** the one whose annotation a webhook writes anew each time: an apply would always change it */
const stamped = 'would_change Deployment hooked-stamp .metadata.annotations.stamp'
const hooked = Object.keys(hooks).map((name) =>
  deploymentOf(name, { replicas: 1 }, { labels: { team: 'shop' }, annotations: { stamp: 'git' } }),
)

const fileOf = (object: ObjectTree) => `${object.kind}-${nameOf(object)}.yaml`.toLowerCase()
const filesOf = (objects: readonly ObjectTree[]) =>
  Object.fromEntries(objects.map((object, i) => [`${i}-${fileOf(object)}`, JSON.stringify(object)]))
const mapOf = (name: string): ObjectTree => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name },
  data: { a: '1' },
})

/** Returns method and object of calls: `patch deployments/web`. */
const brief = (calls: readonly AuditedCall[]) =>
  calls.map(({ verb, uri }) => `${verb} ${uri.split('?')[0]?.split('/').slice(-2).join('/')}`)
/** True for a call about the agent's own records: inventories, GitSyncs, Events. */
const isOwnRecord = ({ uri }: AuditedCall) => uri.includes(`/namespaces/${account.namespace}/`)
const writesOf = (calls: readonly AuditedCall[]) => brief(calls.filter((call) => call.isWrite && !isOwnRecord(call)))

/** Write of a source's own state: the health of objects that scale changes with them. */
const ownState = /^patch configmaps\/gitops-42-\d+-sync$/

t.test('an idle time', { skip, timeout: 240_000 + 1000 * idleSeconds }, async (t) => {
  const processes = await Processes.start(t)
  const log = await AuditLog.create(processes.folder, `system:serviceaccount:${account.namespace}:${account.name}`)
  const controllerFlags = ['--horizontal-pod-autoscaler-sync-period=1s']
  const options = { assets, parts: 'all', auditLogFile: log.file, flags: log.flags, controllerFlags } as const
  const controlPlane = new ControlPlane(options)
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const ground = await Ground.start(t, controlPlane)
  for (const name of [account.namespace, ...Object.values(modes)]) {
    await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  }
  const token = controlPlane.signToken({
    account: await createServiceAccount(controlPlane.admin, account),
    lifeMs: 3_600_000 + 1000 * idleSeconds,
  })
  const client = apiClient(t, {
    server: controlPlane.server,
    ca: { file: controlPlane.caFile },
    token: { text: token },
  })
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: controlPlane.kubeconfig, namespace: main })
  const value = () => (Math.floor(performance.now() / metricMs) % 2 === 0 ? 4 : 2)
  const metrics = externalMetricsObjects(main, await startExternalMetrics(t, value))
  for (const [name, mutate] of Object.entries(hooks)) {
    const own: Mutation = (object, of) => (object.metadata.name === name ? mutate(object, of) : [])
    await startMutatingWebhook(t, ground, { name, resource: 'deployments', mutate: own })
  }

  const kinds = await everyKind()
  const autoscalers = scaled.map((object) =>
    autoscaler({ apiVersion: String(object.apiVersion), kind: String(object.kind), name: nameOf(object) }),
  )
  const objects: Readonly<Record<Mode, readonly ObjectTree[]>> = {
    correct: [...kinds, ...metrics, ...scaled, ...autoscalers, ...hooked, web],
    report: [web, mapOf('plain')],
    none: [web, mapOf('plain')],
  }

  const clock = new SettlingClock()
  /** Starts agentk with one source in a mode. */
  const begin = async (t: Test, mode: Mode, project: ProjectKas, id: bigint) => {
    const drift = { mode, after: '0s', scan: '604800s' } as const
    const source = { id: 'platform/shop', default_namespace: modes[mode], drift }
    const block = { manifest_projects: [source] }
    const side = await startGitops(t, ground, project, block, client, systemClock, clock)
    const state = () => project.states.findLast((one) => one.source === `42-${id}`)
    const synced = () =>
      eventually(() => state()?.phase === Phase.SYNCED && state()?.commit === project.commit, { timeoutMs }).catch(
        (cause) => {
          const shown = JSON.stringify(state(), (_, each) => (typeof each === 'bigint' ? String(each) : each))
          throw new Error(`${mode}: ${shown.slice(0, 4000)} ${side.lines.slice(-5).join(' ')}`, { cause })
        },
      )
    const scan = () => askForDrift(side.methods(), { source: `42-${id}`, scan: true })
    const drifted = () =>
      (state()?.drifted ?? []).map(({ kind, key, path, text }) => `${kind} ${key?.kind} ${key?.name} ${text}${path}`)
    return { mode, id, project, side, state, synced, scan, drifted }
  }
  const begun: Awaited<ReturnType<typeof begin>>[] = []
  for (const [i, mode] of (['correct', 'report', 'none'] as const).entries()) {
    const project = new ProjectKas(401n + BigInt(i))
    project.push(filesOf(objects[mode]))
    begun.push(await begin(t, mode, project, 401n + BigInt(i)))
  }
  for (const { synced } of begun) await synced()
  const comparedAt = begun.map(({ state }) => state()?.comparedAtMs ?? 0n)
  clock.settle() // each source has a round then, which is a part of an idle time too
  await eventually(() => begun.every(({ state }, i) => (state()?.comparedAtMs ?? 0n) > (comparedAt[i] as bigint)), {
    timeoutMs,
  })

  await t.test('each kind that can be applied is there', async (t) => {
    const served = await servedVersions(ground.client, new AbortController().signal)
    const all = served.flatMap(({ group, version, resources }) =>
      resources.flatMap(({ kind, plural, verbs }) =>
        verbs.includes('patch') && !plural.includes('/') ? [`${apiVersionOf({ group, version })}/${kind}`] : [],
      ),
    )
    const kept = objects.correct.map(({ apiVersion, kind }) => `${apiVersion}/${kind}`)
    t.strictSame([...new Set([...kept, ...Object.keys(unkeptKinds)])].sort(), [...new Set(all)].sort())
  })

  const keyed = (object: ObjectTree) => {
    const { group } = parseApiVersion(String(object.apiVersion))
    const key = keyOf(String(object.kind), nameOf(object), main, group)
    return { key, object }
  }
  const found = (kind: string, name: string) =>
    keyed(objects.correct.find((object) => object.kind === kind && nameOf(object) === name) as ObjectTree)
  const [same, status] = [
    [['Deployment', 'plain'] as const, ['Service', 'ports'] as const, ['ConfigMap', 'plain'] as const],
    [['Thing', 'plain'] as const, ['Crew', 'scaled-crew'] as const, ['Service', 'plain'] as const],
  ].map((names) => names.map(([kind, name]) => found(kind, name)))
  await ground.readKinds() // with those that the source defines
  const writers = new IdleWriters(
    { ground, kubectl },
    {
      same: [...(same ?? []), found('Thing', 'plain'), found('HorizontalPodAutoscaler', 'unset')],
      status: (status ?? []).map(({ key }) => key),
      scaled: ['deployment/scaled', 'deployment/unset', 'statefulset/scaled-set'],
    },
  )
  const generations = () =>
    Promise.all(scaled.map(async (object) => (await ground.get(keyed(object).key)).metadata.generation as number))
  const atFirst = await generations()
  writers.start()
  t.teardown(() => writers.stop().catch(() => undefined))
  await eventually(
    async () => {
      const [now, counts] = [await generations(), Object.values(writers.counts)]
      return now.every((generation, i) => generation > (atFirst[i] as number) + 1) && counts.every((count) => count > 4)
    },
    { timeoutMs },
  )

  /** Brings a commit with more ConfigMaps, and nothing else that is new. */
  const bringMore = async ({ mode, project, synced }: (typeof begun)[number], names: readonly string[]) => {
    const more = Object.fromEntries(names.map((name) => [`${name}.yaml`, JSON.stringify(mapOf(name))]))
    project.push({ ...filesOf(objects[mode]), ...more })
    await synced()
  }
  const compareAll = async (t: Test, what: string) => {
    for (const { mode, scan } of begun) {
      const { objects: differing, end } = await scan()
      t.match(end, { objects: objects[mode].length, compared: objects[mode].length, problem: '' }, `${what}, ${mode}`)
      const texts = differing.map(
        ({ object, field }) =>
          `${object?.kind} ${object?.key?.kind} ${object?.key?.name} ${object?.text}${field.map(({ path }) => path)}`,
      )
      t.strictSame(texts, mode === 'correct' ? [stamped] : [], `${what}, ${mode}`)
    }
  }
  await t.test('a scan before finds nothing', (t) => compareAll(t, 'before'))

  await t.test('nothing is reported, compared or written', async (t) => {
    const [before, counts] = [await generations(), writers.counts]
    await log.take()
    await delay(1000 * idleSeconds)
    const calls = await log.take()
    const scalings = (await generations()).map((generation, i) => generation - (before[i] as number))
    const after = writers.counts
    const verbs = Map.groupBy(calls, ({ verb, isDryRun }) => `${verb}${isDryRun ? ' (dry run)' : ''}`)
    t.comment(
      `${idleSeconds} s: ${after.status - counts.status} status writes, ${after.same - counts.same} writes of the same values, ` +
        `${after.scale - counts.scale} kubectl scale, ${scalings.join(' + ')} scalings; calls of agentk: ` +
        JSON.stringify(Object.fromEntries(Array.from(verbs, ([verb, all]) => [verb, all.length]))),
    )
    t.strictSame(writesOf(calls), [], 'writes to objects of sources')
    const others = brief(calls.filter(({ isWrite }) => isWrite)).filter((text) => !ownState.test(text))
    t.strictSame(others, [], 'writes at all, but for the health of what scales')
    t.strictSame(brief(calls.filter(({ isDryRun }) => isDryRun)), [], 'dry runs')
    for (const { mode, state, drifted } of begun) {
      t.match(state()?.counts, { drifted: 0, notCompared: 0 }, mode)
      t.strictSame(
        drifted().filter((text) => !text.startsWith('would_change')),
        [],
        mode,
      )
    }
    t.ok(after.status - counts.status > idleSeconds, 'while the status was written')
    t.ok(after.same - counts.same > 0 && after.scale - counts.scale > 0, 'and the same values, and replicas')
    t.ok(
      scalings.some((count) => count > 0),
      'and autoscalers scaled',
    )
  })

  await t.test('a scan finds nothing, and makes two dry runs of an object at most', async (t) => {
    await log.take()
    await compareAll(t, 'after')
    const calls = await log.take()
    const sum = Object.values(objects).reduce((all, { length }) => all + length, 0)
    const dryRuns = calls.filter(({ isDryRun }) => isDryRun).length
    t.comment(`${sum} objects, ${dryRuns} dry runs, ${calls.length} calls`)
    t.strictSame(writesOf(calls), [])
    t.ok(dryRuns >= sum && dryRuns <= 2 * sum, `${dryRuns}`)
  })

  await t.test('a commit that does not touch the objects writes its own object alone', async (t) => {
    await log.take()
    for (const source of begun) await bringMore(source, ['more'])
    t.strictSame([...new Set(writesOf(await log.take()))], ['patch configmaps/more'])
  })

  await t.test('a webhook that comes later would change objects, and nothing is written', async (test) => {
    const late: Mutation = ({ metadata }) =>
      metadata.name !== 'web'
        ? []
        : [
            { op: 'replace', path: '/spec/template/spec/containers/0/image', value: 'late/nginx:1' },
            ...(metadata.labels?.team ? [{ op: 'remove', path: '/metadata/labels/team' } as const] : []),
          ]
    await log.take()
    await startMutatingWebhook(t, ground, { name: 'late', resource: 'deployments', mutate: late })
    for (const { mode, scan, drifted, state } of begun) {
      const isWeb = (text: string) => text.startsWith('would_change Deployment web')
      await eventually(
        async () => {
          await scan()
          return drifted().some(isWeb)
        },
        { timeoutMs },
      )
      test.match(state()?.counts, { drifted: 0, notCompared: 0 }, mode)
      test.match(drifted().find(isWeb), /labels\.team.*containers\[name="web"\]\.image/, mode)
    }
    for (const source of begun) await bringMore(source, ['more', 'another'])
    for (const { mode, id, project, side } of begun) {
      await side.stop()
      project.states.length = 0
      const again = await begin(test, mode, project, id)
      await again.synced()
      const { objects: differing } = await again.scan()
      const left = differing.filter(({ object }) => object?.kind !== 'would_change')
      test.strictSame(left, [], `${mode}, after a restart`)
    }
    test.strictSame([...new Set(writesOf(await log.take()))], ['patch configmaps/another'])
  })
  await writers.stop()
})
