import { ViewRefused } from '../../../src/kas/modules/views/cli/view-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { Query } from '../../../src/proto/views-json.ts'
import type { Findings, Stage } from '../scene.ts'
import { taken, type Viewer } from './people.ts'
import { letUserView, rbac, type ViewsGround } from './views-ground.ts'
import { WatchedView } from './watched-view.ts'

/** namespaces whose right is taken at a different time each after the last review */
const namespaces = ['shop-0', 'shop-1', 'shop-2', 'shop-3']
const betweenMs = 11_000
const queryOf = (namespace: string): Query => ({ view: 'list', scope: { namespaces: [namespace] } })
/** limit until views follow a change of rights. ms */
const maxMs = 60_000
/** limit of the wait, longer so that the delay can be measured. ms */
const patienceMs = 2 * maxMs
const readyMs = 60_000
const againMs = 250
/** number of replicas, which may learn of it one after another */
const replicas = 3

type Saw = (what: string, ms: number) => void

/** Takes and gives rights in the cluster, and at GitLab: views follow within a minute. */
export async function viewsAndRights(
  ground: ViewsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { inCluster }: { inCluster: boolean },
): Promise<Findings> {
  const { admin, people } = ground
  const seen: string[] = []
  const seconds: Record<string, number> = {}
  const failures: string[] = []
  const saw: Saw = (what, ms) => {
    const text = `${what} after ${(ms / 1000).toFixed(1)} s`
    say(text)
    seen.push(text)
    seconds[what] = Math.round(ms) / 1000
    if (ms > maxMs) failures.push(text)
  }
  for (const namespace of namespaces) {
    await admin.create('/api/v1/namespaces', { metadata: { name: namespace } })
    await admin.create(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: 'settings' } })
    for (const user of ['ada', 'ben', 'cleo'] as const) await letUserView(admin, namespace, user)
  }
  const atOnce = inCluster ? namespaces.map((namespace, i) => bindingTaken(ground, { namespace, i, saw }, signal)) : []
  await Promise.all([...atOnce, takenAtDirectory(ground, saw, signal)])
  return {
    figures: [`rights, with ${people.name}: ${seen.join(', ')}`],
    failures,
    data: { [`rights, ${people.name}`]: seconds },
  }
}

async function bindingTaken(
  ground: ViewsGround,
  { namespace, i, saw }: { namespace: string; i: number; saw: Saw },
  signal: AbortSignal,
): Promise<void> {
  const view = new WatchedView(ground.endpoint('ada'), queryOf(namespace))
  const isShown = () => (view.model?.children('').length ?? 0) > 0
  view.start()
  try {
    await view.until('rows are there', isShown, readyMs, signal)
    await delay(i * betweenMs, signal)
    await ground.admin.request(`${rbac}/namespaces/${namespace}/rolebindings/viewer-ada`, { method: 'DELETE' })
    saw(`binding of ${namespace} taken: rows gone`, await view.until('no rows', () => !isShown(), patienceMs, signal))
    await letUserView(ground.admin, namespace)
    saw(`binding of ${namespace} given: rows there`, await view.until('rows', isShown, patienceMs, signal))
  } finally {
    await view.stop()
  }
}

/** Ends the job and takes a role and a token, all at once, just after each viewer has got access. */
async function takenAtDirectory(ground: ViewsGround, saw: Saw, signal: AbortSignal): Promise<void> {
  const { people } = ground
  const viewers = Object.keys(taken) as Viewer[]
  const open = (viewer: Viewer) => {
    const view = new WatchedView(ground.endpoint(viewer), queryOf(namespaces[0] as string))
    view.start()
    return view
  }
  const views = viewers.map((viewer) => ({ viewer, view: open(viewer) }))
  try {
    for (const { view } of views) await view.until('live', () => view.shown !== undefined, readyMs, signal)
    await people.take()
    await Promise.all(
      views.map(async ({ viewer, view }) => {
        const ms = await view.ends(patienceMs, signal)
        if (!(view.refusal instanceof ViewRefused)) throw view.refusal
        saw(`${taken[viewer]} taken at ${people.name}: view closed (${view.refusal?.message})`, ms)
      }),
    )
  } finally {
    await Promise.all(views.map(({ view }) => view.stop()))
  }
  await people.give()
  const given = performance.now()
  await Promise.all(
    viewers.map(async (viewer) => {
      await letIn(() => open(viewer), signal)
      saw(`${taken[viewer]} given at ${people.name}: view there`, performance.now() - given)
    }),
  )
}

/** Waits until new views open, as many in a row as there are replicas. */
async function letIn(open: () => WatchedView, signal: AbortSignal): Promise<void> {
  const late = AbortSignal.timeout(patienceMs)
  for (let inTurn = 0; inTurn < replicas; ) {
    const view = open()
    try {
      await view.until('live', () => view.shown !== undefined, readyMs, signal)
      inTurn += 1
    } catch (error) {
      if (late.aborted || signal.aborted) throw error
      inTurn = 0
      await delay(againMs, signal)
    } finally {
      await view.stop()
    }
  }
}
