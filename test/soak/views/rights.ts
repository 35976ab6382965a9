import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import type { Query } from '../../../src/proto/views-json.ts'
import type { Findings, Stage } from '../scene.ts'
import { letUserView, rbac, type ViewsGround } from './views-ground.ts'
import { WatchedView } from './watched-view.ts'

const namespace = 'shop'
const binding = `${rbac}/namespaces/${namespace}/rolebindings/viewer`
const query: Query = { view: 'list', scope: { namespaces: [namespace] } }
/** within which what may be seen follows from rights. ms */
const maxMs = 60_000
/** until what does not come is given up, so that it can be said how late it is. ms */
const patienceMs = 2 * maxMs
const readyMs = 60_000
const replicas = 3

/** What may be taken of the user at GitLab, each alone. */
const takenAtGitLab: Readonly<Record<string, (user: KubernetesObject) => void>> = {
  role: (user) => {
    user.roles = {}
  },
  token: (user) => {
    user.tokens = []
  },
}

/** Rights are taken and given, in the cluster and at GitLab: views follow within a minute. */
export async function viewsAndRights(
  ground: ViewsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
): Promise<Findings> {
  const { admin } = ground
  const seen: string[] = []
  const failures: string[] = []
  const saw = (what: string, ms: number) => {
    const text = `${what} after ${(ms / 1000).toFixed(1)} s`
    say(text)
    seen.push(text)
    if (ms > maxMs) failures.push(text)
  }
  await admin.create('/api/v1/namespaces', { metadata: { name: namespace } })
  await admin.create(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: 'settings' } })
  await letUserView(admin, namespace)
  const view = new WatchedView(ground.endpoint('user'), query)
  const isShown = () => (view.model?.children('').length ?? 0) > 0
  view.start()
  try {
    await view.until('rows are there', isShown, readyMs, signal)
    for (const time of ['first', 'second']) {
      await admin.request(binding, { method: 'DELETE' })
      saw(`binding taken, ${time} time: rows gone`, await view.until('no rows', () => !isShown(), patienceMs, signal))
      await letUserView(admin, namespace)
      saw(`binding given, ${time} time: rows there`, await view.until('rows', isShown, patienceMs, signal))
    }
  } finally {
    await view.stop()
  }
  for (const [what, take] of Object.entries(takenAtGitLab)) {
    const { before, closedMs, why } = await closedView(ground, take, signal)
    saw(`${what} taken: view closed (${why})`, closedMs)
    const given = performance.now()
    await ground.changeDirectory((directory) => Object.assign(directory, before))
    await openAgain(ground, signal)
    saw(`${what} given: view there`, performance.now() - given)
  }
  return { figures: [`rights: ${seen.join(', ')}`], failures }
}

/** A view that is open while something is taken at GitLab. */
async function closedView(ground: ViewsGround, take: (user: KubernetesObject) => void, signal: AbortSignal) {
  const view = new WatchedView(ground.endpoint('user'), query)
  view.start()
  try {
    await view.until('live', () => view.shown !== undefined, readyMs, signal)
    let before: KubernetesObject = {}
    await ground.changeDirectory((directory) => {
      before = structuredClone(directory)
      take(directory.users[0])
    })
    const closedMs = await view.ends(patienceMs, signal)
    return { before, closedMs, why: view.refusal?.message }
  } finally {
    await view.stop()
  }
}

/** Until a new view is let in by each replica, in turn. */
async function openAgain(ground: ViewsGround, signal: AbortSignal): Promise<void> {
  const late = AbortSignal.timeout(patienceMs)
  for (let inTurn = 0; inTurn < replicas; ) {
    const view = new WatchedView(ground.endpoint('user'), query)
    view.start()
    try {
      await view.until('live', () => view.shown !== undefined, readyMs, signal)
      inTurn += 1
    } catch (error) {
      if (late.aborted || signal.aborted) throw error
      inTurn = 0
    } finally {
      await view.stop()
    }
  }
}
