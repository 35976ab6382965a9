import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { Query } from '../../../src/proto/views-json.ts'
import type { Findings, Stage } from '../scene.ts'
import { atOnce } from './at-once.ts'
import { Beats } from './beats.ts'
import type { Viewer } from './people.ts'
import type { ViewsGround } from './views-ground.ts'
import { letUserView } from './views-ground.ts'
import { freshView, WatchedView } from './watched-view.ts'

const namespaces = ['shop-0', 'shop-1', 'shop-2', 'shop-3', 'shop-4']
/** namespaces that the user may list */
const shared = namespaces.slice(0, 3)
/** longer than another replica waits for this one. ms */
const replicaFrozenMs = 3000
/** longer than the lease, so that another pod leads. ms */
const podFrozenMs = 20_000
const readyMs = 60_000
/** limit until all views are live again and equal to fresh ones. ms */
const equalMs = 60_000
const againMs = 500
/** number of fresh views at once */
const lanes = 8
/** time of changes before and after a fault. ms */
const aroundMs = 1500

type Victim = Pick<LocalReplica, 'signal' | 'exited' | 'start'>

interface Fault {
  readonly name: string
  /** chooses the victim of now; viewers may have to move for it */
  find(ground: ViewsGround): Promise<Victim>
  play(victim: Victim, ground: ViewsGround, signal: AbortSignal): Promise<void>
}

/** Faults of pods have pauses: meanwhile agentk finds its replicas again, which takes ten seconds. */
const faults: readonly Fault[] = [
  { name: 'kill holder', find: (ground) => ground.holder(), play: killReplica },
  { name: 'kill leading pod', find: (ground) => ground.leadingPod(), play: kill },
  { name: 'freeze holder', find: (ground) => ground.holder(), play: freezeReplica },
  { name: 'freeze entry', find: (ground) => ground.entry(), play: freezeReplica },
  { name: 'kill entry', find: (ground) => ground.entry(), play: killReplica },
  { name: 'freeze leading pod', find: (ground) => ground.leadingPod(), play: freezePod },
]

/**
 * Follows views of different scopes, while replicas and pods on their way are killed and frozen: each ends equal to a
 * fresh view.
 */
export async function viewsUnderFaults(
  ground: ViewsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { times, views: count }: { times: number; views: number },
): Promise<Findings> {
  const { admin } = ground
  for (const name of namespaces) await admin.create('/api/v1/namespaces', { metadata: { name } })
  for (const name of shared) await letUserView(admin, name)
  const beats = new Beats(admin, namespaces)
  await beats.create()
  const views = Array.from({ length: count }, (_, i) => {
    const viewer = viewerAt(i)
    return new WatchedView(ground.endpoint(viewer), queryOf(i, viewer === 'ada' ? shared : namespaces))
  })
  const viewerOf = (view: WatchedView) => viewerAt(views.indexOf(view))
  const failures: string[] = []
  const gaps = new Map<string, number[]>()
  try {
    for (const view of views) view.start()
    for (const view of views) await view.until('live', () => view.shown !== undefined, readyMs, signal)
    const quiet = beats.begin()
    await delay(aroundMs, signal)
    for (const view of views) view.takeGap()
    await delay(aroundMs, signal)
    gaps.set('no fault', [Math.max(...views.map((view) => view.takeGap()))])
    await quiet()
    for (let round = 1; round <= times; round++) {
      for (const fault of faults) {
        await ground.placed(readyIn(signal))
        const victim = await fault.find(ground)
        const stopBeats = beats.begin()
        await allUpdated(views, signal)
        for (const view of views) view.takeGap()
        await fault.play(victim, ground, signal)
        await allUpdated(views, signal)
        const longest = Math.max(...views.map((view) => view.takeGap()))
        gaps.set(fault.name, [...(gaps.get(fault.name) ?? []), longest])
        await stopBeats()
        const fresh = (view: WatchedView) => freshView(ground.endpoint(viewerOf(view)), view.query, signal)
        const unequal = await unequalViews(views, fresh, signal)
        for (const text of unequal) failures.push(`${fault.name} ${round}: ${text}`)
        say(`${fault.name} ${round}: longest gap ${longest.toFixed()} ms, ${unequal.length} of ${count} not equal`)
      }
    }
  } finally {
    await Promise.all(views.map((view) => view.stop()))
  }
  const text = [...gaps].map(([name, values]) => `${name} ${Math.max(...values).toFixed()}`).join(', ')
  const figure = `faults: ${count} views, each fault ${times} times, all equal to fresh ones but ${failures.length}; longest gap, ms: ${text}`
  const longestGapMs = Object.fromEntries(Array.from(gaps, ([name, ms]) => [name, ms.map(Math.round)]))
  return { figures: [figure], failures, data: { faults: { views: count, times, longestGapMs } } }
}

const viewerAt = (i: number): Viewer => (i % 3 === 2 ? 'ada' : 'job')

/** Waits until each view has got a change from after the call. */
async function allUpdated(views: readonly WatchedView[], signal: AbortSignal): Promise<void> {
  await delay(aroundMs / 2, signal)
  const before = views.map((view) => view.updates)
  for (const [i, view] of views.entries()) {
    await view.until('an update', () => view.updates > (before[i] as number), equalMs, signal)
  }
}

/** Returns each kind of query in each namespace. */
function queryOf(i: number, allowed: readonly string[]): Query {
  const namespace = allowed[i % allowed.length] as string
  const next = allowed[(i + 1) % allowed.length] as string
  const queries: readonly Query[] = [
    { view: 'tree', scope: { namespaces: [namespace] } },
    { view: 'list', scope: { namespaces: [namespace] }, limit: 10 },
    { view: 'tree', filter: { text: 'beat' } },
    { view: 'list', filter: { kinds: ['apps/Deployment'] }, limit: 3 },
    { view: 'tree', scope: { namespaces: [namespace, next] }, limit: 200 },
    { view: 'list', filter: { kinds: ['apps/Deployment'], verdicts: ['Progressing', 'Healthy'] } },
    { view: 'tree' },
  ]
  return queries[i % queries.length] as Query
}

/** Compares until they are equal: a change may have reached one and be on its way to the other. */
async function unequalViews(
  views: readonly WatchedView[],
  fresh: (view: WatchedView) => Promise<string>,
  signal: AbortSignal,
): Promise<string[]> {
  const unequal: string[] = []
  await atOnce(lanes, views, async (view) => {
    const late = AbortSignal.timeout(equalMs) // its own limit: earlier views may be slow
    let wanted = await fresh(view)
    while (view.shown !== wanted && !view.refusal && !late.aborted) {
      await delay(againMs, signal)
      wanted = await fresh(view)
    }
    if (view.refusal) unequal.push(`${JSON.stringify(view.query)} ended: ${view.refusal.message}`)
    else if (view.shown !== wanted) unequal.push(`${JSON.stringify(view.query)} shows ${view.shown}, not ${wanted}`)
  })
  return unequal
}

const readyIn = (signal: AbortSignal) => AbortSignal.any([signal, AbortSignal.timeout(readyMs)])

/** Kills the victim and starts it again at once, as a StatefulSet does. */
async function kill(victim: Victim): Promise<void> {
  victim.signal('SIGKILL')
  await victim.exited
  await victim.start()
}

async function killReplica(victim: Victim, ground: ViewsGround, signal: AbortSignal): Promise<void> {
  await kill(victim)
  await ground.settled(readyIn(signal))
}

async function freezeReplica(victim: Victim, ground: ViewsGround, signal: AbortSignal): Promise<void> {
  await freeze(victim, replicaFrozenMs, signal)
  await ground.settled(readyIn(signal))
}

function freezePod(victim: Victim, _: ViewsGround, signal: AbortSignal): Promise<void> {
  return freeze(victim, podFrozenMs, signal)
}

async function freeze(victim: Victim, ms: number, signal: AbortSignal): Promise<void> {
  victim.signal('SIGSTOP')
  try {
    await delay(ms, signal)
  } finally {
    victim.signal('SIGCONT')
  }
}
