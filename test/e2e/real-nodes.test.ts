import type { Test } from 'tap'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { verdictOf } from '../../src/kas/modules/views/cli/shown-view.ts'
import type { Cause, Row } from '../../src/proto/views-json.ts'
import { crashes, noImage } from '../soak/rollouts/bad.ts'
import { autoscaled, orderedSet, slowUpdate } from '../soak/rollouts/good.ts'
import { playBad, playGood, seconds, tellBad, tellGood } from '../soak/rollouts/rollouts.ts'
import { Kubectl } from '../support/kubectl.ts'
import { type Breakage, breakages, reserveDoomedNode, type Sign } from '../support/nodes/breakages.ts'
import { ExternalMetrics } from '../support/nodes/external-metrics.ts'
import { NodesGround } from '../support/nodes/nodes-ground.ts'
import { onNodes, whySkipped } from '../support/nodes/on-nodes.ts'
import { playStreams, type StreamClient } from '../support/nodes/pod-streams.ts'
import { namespaceOf } from '../support/nodes/workloads.ts'
import { type OlderKubectl, olderKubectl, olderVersion, passOlderKubectl } from '../support/older-kubectl.ts'
import { LiveTree } from '../support/views/live-tree.ts'

/**
 * Breakages, rollouts and kubectl's streams on nodes with a kubelet and containers. A viewer gets their causes from kas
 * and agentk as processes. `npm run soak -- rollouts` plays the other rollouts.
 */

/** limit of one step, on a busy machine. ms */
const stepMs = 60_000
const secondMs = 1000

/** Result of one breakage. */
interface Told {
  readonly breakage: Breakage
  readonly cause: Cause
  /** delay from the API server to the viewer; 0 if the sign came later. ms */
  readonly lagMs: number
  /** begin of the cause as its object says it, in whole seconds. ms since 1970 */
  readonly since: number | undefined
}

const isOutside = process.env.KUBETEST_DIR === undefined
const older = isOutside && whySkipped() ? { lacks: 'not asked for' } : await olderKubectl()
const environment = passOlderKubectl(older)
onNodes('real nodes', { file: import.meta.url, nodes: 2, timeoutMs: 200_000, environment }, async (t, cluster) => {
  await reserveDoomedNode({ cluster })
  const ground = await NodesGround.start(t, cluster)
  await cluster.startEmptyRegistry(1, ground.processes)
  const metrics = await ExternalMetrics.start(t, cluster)
  const tree = rootView(ground)
  t.teardown(() => tree.stop())
  await tree.until('the view is live', () => tree.isLive, stepMs)

  const began = Date.now()
  const components = { ground, metrics }
  const good = [slowUpdate, orderedSet, autoscaled].map(
    (rollout, i) => [rollout, playGood(rollout, `good-${i + 1}`, components)] as const,
  )
  const bad = [noImage, crashes].map((rollout, i) => {
    const options = { deadlineSeconds: 300, stable: '10s' }
    return [rollout, playBad(rollout, `bad-${i + 1}`, components, options)] as const
  })
  for (const [, playing] of [...good, ...bad]) playing.catch(() => undefined) // awaited below
  const streams = playStreams(streamClients(ground, older), ground)
  const told: Told[] = []

  await t.test("kubectl's streams, by each protocol", async (t) => {
    for (const { name, skip, done } of streams)
      await t.test(name, { skip }, async (t) => {
        await t.resolves(done ?? Promise.resolve())
      })
  })

  await t.test('what breaks is told, with what is to be read next', async (t) => {
    const playing = breakages.map((breakage) => played(breakage, ground, tree))
    for (const one of playing) one.catch(() => undefined) // awaited below
    for (const [i, { name }] of breakages.entries()) {
      await t.test(name, async (t) => {
        const one = (await playing[i]) as Told
        told.push(one)
        const { breakage, cause, lagMs, since } = one
        const age = cause.since === undefined ? '' : `, since ${seconds(Date.now() + tree.ahead - cause.since)}`
        t.comment(`${cause.reason} of ${cause.kind}: ${Math.round(lagMs)} ms after the API server${age}`)
        t.match(cause.next, breakage.next, 'what is to be read next')
        t.ok(isSoonAfter(cause.since, began), `since when: ${cause.since}`)
        // a controller may report it again, with another time
        if (since !== undefined) t.ok((cause.since ?? 0) < since + secondMs, `${cause.since}: its object says ${since}`)
      })
    }
  })

  await t.test('rollouts that go well are never Degraded', async (t) => {
    for (const [rollout, playing] of good) await tellGood(t, rollout, playing)
  })

  await t.test('the gate ends long before the deadline of those that do not', async (t) => {
    for (const [rollout, playing] of bad) {
      const answered = await tellBad(t, rollout, playing)
      await answered((status) => status.now())
    }
  })

  await t.test('agentk starts anew: the same since, or at least', async (t) => {
    const before = await shownNow(tree)
    await ground.stopAgentk('agentk-0')
    await ground.startAgentk('agentk-0')
    await theSame(t, before, ground)
  })

  await t.test('another pod leads: the same since, or at least', async (t) => {
    await ground.startAgentk('agentk-1')
    const before = await shownNow(tree)
    await ground.stopAgentk('agentk-0')
    await theSame(t, before, ground)
  })

  await t.test('it is Degraded once its grace is over, and the tree says why', async (t) => {
    for (const { breakage, cause } of told) {
      const isOver = () => verdictOf(rowOf(tree, breakage) ?? nothing) === 'Degraded' && causeOf(tree, breakage)
      if (breakage.isDegradedSoon) await tree.until(`${breakage.name} is Degraded`, isOver, stepMs)
      t.equal(causeOf(tree, breakage)?.reason, cause.reason, breakage.name)
    }
    // for a shell, the text in braces is quoted
    const stdout = (await ground.kas('tree', '-A')).stdout.replaceAll("'", '')
    for (const { breakage } of told) {
      const { reason, next } = causeOf(tree, breakage) as Cause
      t.ok(stdout.includes(`${reason}: `) && stdout.includes(`next: ${next}`), `${breakage.name}: ${next}`)
    }
  })
})

/**
 * Clients of both protocols: today's kubectl has both; older ones, and programs with their library, have SPDY alone.
 */
function streamClients({ kubectl, processes, stack }: NodesGround, older: OlderKubectl): StreamClient[] {
  const through = { kubeconfig: stack.kubeconfig('agent') }
  const today = kubectl.with(through)
  const before = new Kubectl({ processes, assets: 'folder' in older ? older.folder : '' }, through)
  const skip = 'lacks' in older && older.lacks
  return [
    { name: 'WebSocket', kubectl: today, protocol: 'WebSocket', skip: false },
    { name: 'SPDY', kubectl: today, protocol: 'SPDY', skip: false },
    { name: `SPDY, kubectl ${olderVersion}`, kubectl: before, protocol: 'SPDY', skip },
  ]
}

const nothing: Row = { u: '', k: '', n: '' }

/** Plays a breakage, and waits until the viewer gets the expected cause. */
async function played(breakage: Breakage, ground: NodesGround, tree: LiveTree): Promise<Told> {
  const { name, objects, breaks, sign, includes, count = 1, since: sinceOf } = breakage
  const { cluster } = ground
  await cluster.create(namespaceOf(name))
  await cluster.admin.until(
    `/api/v1/namespaces/${name}/serviceaccounts`,
    ({ metadata }) => metadata.name === 'default',
    AbortSignal.timeout(stepMs),
  )
  const [known, shown] = [sightOf(sign, ground), causeWith(breakage, tree)]
  shown.catch(() => undefined) // awaited below
  known.catch(() => undefined)
  await cluster.create(...objects)
  await breaks?.(ground)
  const lagMs = Math.max(0, (await shown) - (await known))
  const all = () => {
    const cause = causeOf(tree, breakage)
    if (cause?.reason !== breakage.reason || (cause.count ?? 1) !== count) return undefined
    return includes.every((part) => cause.text.includes(part)) ? cause : undefined
  }
  const cause = await tree
    .until(`${name}: ${count} of them, and ${includes}`, all, stepMs)
    .catch((error: Error) =>
      Promise.reject(new Error(`${error.message}, but ${JSON.stringify(causeOf(tree, breakage))}`)),
    )
  if (!sinceOf) return { breakage, cause, lagMs, since: undefined }
  const { items } = await cluster.admin.get(sign.path)
  const times = (items as KubernetesObject[]).filter(sign.holds).map((one) => Date.parse(sinceOf(one) ?? ''))
  return { breakage, cause, lagMs, since: Math.min(...times) }
}

/** Time when the API server had the sign. ms, by `performance.now` */
async function sightOf({ path, holds }: Sign, { cluster }: NodesGround): Promise<number> {
  await cluster.admin.until(path, holds, AbortSignal.timeout(stepMs))
  return performance.now()
}

/** Time when the viewer got the cause. ms, by `performance.now` */
async function causeWith(breakage: Breakage, tree: LiveTree): Promise<number> {
  const { name, reason, culprit } = breakage
  const [kind, named] = culprit
  let last = ''
  const look = () => {
    const cause = causeOf(tree, breakage)
    if (cause) last = JSON.stringify(cause)
    return cause?.reason === reason && cause.kind === kind && named.test(cause.name)
  }
  try {
    await tree.until(`${name}: ${reason} of ${kind}`, look, stepMs)
  } catch (error) {
    throw new Error(`${(error as Error).message}; it was told ${last || 'nothing'}`, { cause: error })
  }
  return performance.now()
}

function rowOf(tree: LiveTree, { name, root: [kind, named] }: Breakage): Row | undefined {
  const isIt = ({ k, n, ns }: Row) => k === kind && n === named && (ns === undefined || ns === '' || ns === name)
  return tree.roots.find(isIt)
}

const causeOf = (tree: LiveTree, breakage: Breakage) => rowOf(tree, breakage)?.z

/** Returns true if the time is not before the test began, by clocks of whole seconds. */
const isSoonAfter = (since: number | undefined, began: number) => since !== undefined && since >= began - secondMs

/**
 * The cause that the viewer has of each breakage now. It waits for all: a container that crashes again and again runs
 * for moments.
 */
async function shownNow(tree: LiveTree): Promise<{ readonly breakage: Breakage; readonly cause: Cause }[]> {
  const shown = () =>
    breakages.flatMap((breakage) => {
      const cause = causeOf(tree, breakage)
      return cause ? [{ breakage, cause }] : []
    })
  await tree.until('each breakage is told', () => shown().length === breakages.length, stepMs)
  return shown()
}

/** Checks that a new view has the same causes, although its pod has seen none of them begin. */
async function theSame(t: Test, before: Awaited<ReturnType<typeof shownNow>>, ground: NodesGround): Promise<void> {
  t.equal(before.length, breakages.length)
  const tree = rootView(ground)
  const others = () =>
    before.flatMap(({ breakage, cause }) => {
      const now = causeOf(tree, breakage)
      return now && isSame(breakage, cause, now)
        ? []
        : [`${breakage.name}: ${JSON.stringify(now)}, before ${JSON.stringify(cause)}`]
    })
  await tree.until('the same causes', () => tree.isLive && others().length === 0, stepMs).catch(() => undefined)
  t.strictSame(others(), [])
  await tree.stop()
}

/** Compares whole seconds. A cause whose begin no object in the cluster has is "at least" so old. */
function isSame({ isSeenAlone }: Breakage, before: Cause, now: Cause): boolean {
  if (now.reason !== before.reason || now.kind !== before.kind) return false
  const later = (now.since ?? 0) - (before.since ?? 0)
  return now.atLeast === true || Math.abs(later) <= secondMs || (isSeenAlone === true && later > 0)
}

const rootView = ({ endpoint }: NodesGround) => new LiveTree({ endpoint, query: { view: 'tree', limit: 500 } })
