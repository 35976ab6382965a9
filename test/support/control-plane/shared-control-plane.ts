import root, { type Test } from 'tap'
import { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import { delay } from '../../../src/lib/signals.ts'
import { patience } from '../slowness.ts'
import { type Snapshot, Store } from './store.ts'

/** An API server that tests of this process use one after another. */
interface Shared {
  readonly flags: string
  readonly controlPlane: ControlPlane
  readonly store: Store
  readonly before: Snapshot
  readonly groups: string
  isUsed: boolean
}

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const started: Shared[] = []
/** limit until the API server has noticed that its store was reset */
const resetTimeoutMs = 30_000
const resetRetryMs = 20
const madeLast = [
  ['/api/v1/namespaces/default/services', 'kubernetes'],
  ['/api/v1/namespaces/kube-system/configmaps', 'extension-apiserver-authentication'],
] as const

/**
 * Returns an API server with these flags and only its own objects: one from an earlier test of this process, or a new
 * one. The test's objects are removed after it. A test that restarts the server with other flags has its own.
 *
 * @param t - the only test that uses it, until its end
 * @param flags - more flags of kube-apiserver
 */
export async function sharedControlPlane(
  t: Pick<Test, 'teardown'>,
  flags: readonly string[] = [],
): Promise<ControlPlane> {
  const wanted = flags.join(' ')
  const idle = started.find((one) => !one.isUsed && one.flags === wanted)
  if (idle) idle.isUsed = true
  const shared = idle ?? (await start(flags))
  t.teardown(async () => {
    await reset(shared)
    shared.isUsed = false
  })
  return shared.controlPlane
}

async function start(flags: readonly string[]): Promise<Shared> {
  const controlPlane = new ControlPlane({ assets, parts: 'api', flags })
  root.teardown(() => controlPlane.stop())
  await controlPlane.start()
  // the last objects that it creates for itself, once it is ready
  const signal = AbortSignal.timeout(patience(resetTimeoutMs))
  for (const [path, name] of madeLast) {
    const isOwn = ({ metadata }: { metadata: { name: string } }) => metadata.name === name
    await controlPlane.admin.until(path, (object) => isOwn(object as never), signal)
  }
  const store = new Store(controlPlane.folder)
  const [before, groups] = [await store.snapshot(), await groupsOf(controlPlane, signal)]
  const shared = { flags: flags.join(' '), controlPlane, store, before, groups, isUsed: true }
  started.push(shared)
  return shared
}

/**
 * Resets the store. With a definition its API group is removed, which the API server does by itself, a little later.
 */
async function reset({ controlPlane, store, before, groups }: Shared): Promise<void> {
  const signal = AbortSignal.timeout(patience(resetTimeoutMs))
  // twice: its caches follow the store one after another
  for (let quiet = 0; quiet < 2; ) {
    const isAsBefore = (await store.restore(before)).length === 0 && (await groupsOf(controlPlane, signal)) === groups
    quiet = isAsBefore ? quiet + 1 : 0
    await delay(resetRetryMs, signal)
  }
}

async function groupsOf({ admin }: ControlPlane, signal: AbortSignal): Promise<string> {
  const { groups } = await admin.get('/apis', signal)
  return groups
    .map(({ name }: { name: string }) => name)
    .sort()
    .join()
}
