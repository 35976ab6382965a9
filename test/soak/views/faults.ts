import { delay } from '../../../src/lib/signals.ts'
import type { Query } from '../../../src/proto/views-json.ts'
import type { Findings, Stage } from '../scene.ts'
import { Beats } from './beats.ts'
import type { ViewsGround } from './views-ground.ts'
import { letUserView } from './views-ground.ts'
import { freshView, WatchedView } from './watched-view.ts'

const namespaces = ['shop-0', 'shop-1', 'shop-2', 'shop-3', 'shop-4']
/** the user may list these */
const shared = namespaces.slice(0, 3)
/** longer than a replica is waited for by another one. ms */
const replicaFrozenMs = 3000
/** longer than the lease: another pod leads. ms */
const podFrozenMs = 20_000
const readyMs = 60_000
/** until all views are live again and equal to fresh ones. ms */
const equalMs = 60_000
const againMs = 500
/** changes go on around a fault. ms */
const aroundMs = 1500

interface Fault {
  readonly name: string
  play(ground: ViewsGround, signal: AbortSignal): Promise<void>
}

const faults: readonly Fault[] = [
  ...(['holder', 'entry'] as const).flatMap((which): Fault[] => [
    { name: `kill ${which}`, play: (ground, signal) => killReplica(ground, which, signal) },
    { name: `freeze ${which}`, play: (ground, signal) => freezeReplica(ground, which, signal) },
  ]),
  { name: 'kill leading pod', play: killLead },
  { name: 'freeze leading pod', play: freezeLead },
]

/** Views of different scopes, while what is on their way is killed and frozen: each ends equal to a fresh one. */
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
    const viewer = i % 3 === 2 ? 'user' : 'agent'
    return new WatchedView(ground.endpoint(viewer), queryOf(i, viewer === 'user' ? shared : namespaces))
  })
  const viewerOf = (view: WatchedView) => (views.indexOf(view) % 3 === 2 ? 'user' : 'agent')
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
        const stopBeats = beats.begin()
        await delay(aroundMs / 2, signal)
        for (const view of views) view.takeGap()
        await fault.play(ground, signal)
        await allUpdated(views, signal)
        const longest = Math.max(...views.map((view) => view.takeGap()))
        gaps.set(fault.name, [...(gaps.get(fault.name) ?? []), longest])
        await stopBeats()
        const unequal = await unequalViews(views, (query, view) =>
          freshView(ground.endpoint(viewerOf(view)), query, signal),
        )
        for (const text of unequal) failures.push(`${fault.name} ${round}: ${text}`)
        say(`${fault.name} ${round}: longest gap ${longest.toFixed()} ms, ${unequal.length} of ${count} not equal`)
      }
    }
  } finally {
    await Promise.all(views.map((view) => view.stop()))
  }
  const text = [...gaps].map(([name, values]) => `${name} ${Math.max(...values).toFixed()}`).join(', ')
  const figure = `faults: ${count} views, each fault ${times} times, all equal to fresh ones but ${failures.length}; longest gap, ms: ${text}`
  return { figures: [figure], failures }
}

/** Changes go on: each view hears of one that came after now. */
async function allUpdated(views: readonly WatchedView[], signal: AbortSignal): Promise<void> {
  await delay(aroundMs, signal)
  const before = views.map((view) => view.updates)
  for (const [i, view] of views.entries()) {
    await view.until('an update', () => view.updates > (before[i] as number), equalMs, signal)
  }
}

/** Each kind of query in each namespace. */
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

/** Equal in the end: a change may be on its way to the one and have reached the other. */
async function unequalViews(
  views: readonly WatchedView[],
  fresh: (query: Query, view: WatchedView) => Promise<string>,
): Promise<string[]> {
  const unequal: string[] = []
  const late = AbortSignal.timeout(equalMs)
  for (const view of views) {
    let wanted = await fresh(view.query, view)
    while (view.shown !== wanted && !view.refusal && !late.aborted) {
      await delay(againMs)
      wanted = await fresh(view.query, view)
    }
    if (view.refusal) unequal.push(`${JSON.stringify(view.query)} ended: ${view.refusal.message}`)
    else if (view.shown !== wanted) unequal.push(`${JSON.stringify(view.query)} shows ${view.shown}, not ${wanted}`)
  }
  return unequal
}

const readyIn = (signal: AbortSignal) => AbortSignal.any([signal, AbortSignal.timeout(readyMs)])

/** Started again at once, as by a StatefulSet. */
async function killReplica(ground: ViewsGround, which: 'holder' | 'entry', signal: AbortSignal): Promise<void> {
  const victim = await ground.replica(which)
  victim.signal('SIGKILL')
  await victim.exited
  await victim.start()
  await ground.settled(readyIn(signal))
}

async function freezeReplica(ground: ViewsGround, which: 'holder' | 'entry', signal: AbortSignal): Promise<void> {
  const victim = await ground.replica(which)
  victim.signal('SIGSTOP')
  try {
    await delay(replicaFrozenMs, signal)
  } finally {
    victim.signal('SIGCONT')
  }
  await ground.settled(readyIn(signal))
}

async function killLead(ground: ViewsGround): Promise<void> {
  const pod = await ground.leadingPod()
  await pod.kill()
  await pod.start()
}

async function freezeLead(ground: ViewsGround, signal: AbortSignal): Promise<void> {
  const pod = await ground.leadingPod()
  pod.signal('SIGSTOP')
  try {
    await delay(podFrozenMs, signal)
  } finally {
    pod.signal('SIGCONT')
  }
}
